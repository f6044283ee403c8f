"""Lowerings: how a chip computes a TOP op in one mode. Every choice that affects values is made here."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from tpuc.ir import Node, Op, OpT_co, TensorType, Uniform, Value

if TYPE_CHECKING:
    import numpy.typing as npt

    from tpuc.api.chip import ChipDescription

    Array: TypeAlias = npt.NDArray[Any]

OpT = TypeVar("OpT", bound=Op)


NO_LOWERING = "the chip has no lowering for it, and no legalization is known"
"""The reason for refusing an op that has no lowering."""


class Wants(Enum):
    """The element type that a lowering requires of an operand; the framework inserts the Casts."""

    MODE = "the mode's own type: quantized in int8 modes, else f32, f16 or bf16"
    FLOAT = "f32 whatever the mode is"
    INDEX = "whole numbers that choose places: f32, as are the ops that only lead to them"
    EXACT = "a float that is not rounded on the way: ops that only lead to it are in the chip's `compute_type`"
    AS_IS = "whatever its producer made (shape ops)"


@dataclasses.dataclass(frozen=True)
class LoweringNode(Node[OpT_co]):
    """A TOP node during lowering.

    `operands` are lowered values that already have the wanted types; constants keep their float TOP weight.
    `constants[i]` is the array of a constant operand, None for computed ones. `result_names`: of every result; an op
    with several results must give each of them to the op that computes it. `users`: the ops that read the results, also
    through reshapes. `float_sums`: an op in an int8 mode whose result is only read as floats; a lowering that supports
    it (`Lowering.float_sums`) should return its sums as f32 without rounding to bytes. `made_of[i]`: the node that
    computes operand i from a single other operand, and that operand; None where there is none. `read_as_f32`: an op of
    `float_sums` whose results are read as float32, directly or after moves, by the host or the runtime.
    """

    operands: tuple[Value, ...] = ()
    constants: tuple[Array | None, ...] = ()
    mode: str = "f32"
    chip: ChipDescription | None = None
    result_names: tuple[str, ...] = ()
    users: tuple[Op, ...] = ()
    float_sums: bool = False
    made_of: tuple[tuple[int, Node[Op]] | None, ...] = ()
    read_as_f32: bool = False

    def quantized_result_type(self, index: int = 0) -> TensorType:
        """The result's type as the chip stores it in the int8 modes, from its calibration.

        Raises CalibrationError when the value was not calibrated.
        """
        assert self.chip is not None
        return self.chip.quantize(self.result_types[index], self.mode, self.name)

    quantised_result_type = quantized_result_type  # until version 0.3

    def float_result_type(self, index: int = 0) -> TensorType:
        """The result's type in a float mode (f32 in the int8 modes)."""
        assert self.chip is not None
        return self.chip.float_type(self.result_types[index], self.mode)


class LoweringBuilder(Protocol):
    """The interface that a lowering builds with; calling it appends an op and returns its result."""

    def __call__(
        self, op: Op, operands: Sequence[Value], result: TensorType | None = None, name: str | None = None
    ) -> Value:
        """Append `op`. `result` None infers it; `name` None takes the node's name (the last op must carry it)."""
        ...

    def weight(self, suffix: str, array: Array, element: str | Uniform | None = None) -> Value:
        """A new constant named `<node>_<suffix>`, stored as element type `element` (from the dtype when None)."""
        ...

    def none(self) -> Value:
        """The value of an absent operand."""
        ...


class Lowering(Generic[OpT]):
    """Base of every lowering cell. One instance serves all nodes: keep no state.

    Most cells lower ops of the network. A cell for `tpu.Cast` in the table `<chip>.tpu` makes the casts that the
    framework inserts: its node's operand and result types say from what to what; it may give a type that means
    the same.
    """

    channel_scales: ClassVar[bool] = False
    """The lowering takes and returns integers with a scale per channel and no zero point."""
    float_sums: ClassVar[bool] = False
    """The lowering can return its int32 sums as f32 where `LoweringNode.float_sums` asks for them."""

    def serves(self, op: type[Op]) -> bool:
        """For a lowering of a kind of ops: true if it lowers this op. Called without a node, for tables of support."""
        return True

    def refuse(self, node: LoweringNode[OpT]) -> str | None:
        """Why this chip cannot compute this node in this mode, in a sentence without a full stop; None: it can.

        `operands` of the node are not lowered yet and may be empty here; `constants` are given.
        """
        return None

    def takes_zero_points(self, node: LoweringNode[OpT]) -> bool:
        """True if operands and results of a pre-quantized network may keep their zero points. Called where the mode has
        none of its own; `operands` of the node are those of the network.
        """
        return False

    def requires(self, node: LoweringNode[OpT]) -> Sequence[Wants]:
        """The required type of each operand; constants are never cast. Default: the mode's own type everywhere."""
        return (Wants.MODE,) * len(node.operand_types)

    def lower(self, node: LoweringNode[OpT], build: LoweringBuilder) -> Sequence[Value]:
        """Build the TPU ops; returns one value per result.

        Where the network states the type of a result (`Uniform`), the framework converts floats, and integers with
        another scale, zero point, width or range, to that type: rounding and saturation are part of the stated type.
        Returning the stated type saves the conversion.
        """
        raise NotImplementedError
