"""Lowerings: how a chip computes a TOP op in one mode; every choice that changes a value is made here."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from tpuc.ir import Node, Op, OpT_co, TensorType, Value

if TYPE_CHECKING:
    import numpy.typing as npt

    from tpuc.api.chip import ChipDescription

    Array: TypeAlias = npt.NDArray[Any]

OpT = TypeVar("OpT", bound=Op)


NO_LOWERING = "the chip has no lowering for it, and no legalisation is known"
"""Why an op is refused that nobody computes."""


class Wants(Enum):
    """What element a lowering needs in an operand; the framework inserts the Casts."""

    MODE = "the mode's own type: quantised in int8 modes, else f32, f16 or bf16"
    FLOAT = "f32 whatever the mode is"
    INDEX = "whole numbers that choose places: f32, as are the ops that only lead to them"
    EXACT = "a float that is not rounded on the way: ops that only lead to it are in the chip's `compute_type`"
    AS_IS = "whatever its producer made (shape ops)"


@dataclasses.dataclass(frozen=True)
class LoweringNode(Node[OpT_co]):
    """A TOP node on its way to a chip.

    `operands` are lowered values that already have the wanted types; constants keep their float TOP weight.
    `constants[i]` is the array of a constant operand, None for computed ones. `result_names`: of every result; an op
    of several results must give each of them to the op that computes it. `users`: the ops that take the results, also
    after these were reshaped. `float_sums`: an op in an int8 mode whose result is only read as floats; a lowering that
    can (`Lowering.float_sums`) should give its sums as f32 and round nothing to bytes. `made_of[i]`: the node that
    makes operand i of another operand alone, and which one that is; None where none does. `read_as_f32`: an op of
    `float_sums` whose results are read as float32, at once or after they were moved: by the host or the runtime.
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

    def quantised_result_type(self, index: int = 0) -> TensorType:
        """The result's type as the chip stores it in the int8 modes, from its calibration.

        Raises CalibrationError when the value was not calibrated.
        """
        assert self.chip is not None
        return self.chip.quantise(self.result_types[index], self.mode, self.name)

    def float_result_type(self, index: int = 0) -> TensorType:
        """The result's type in a float mode (f32 in the int8 modes)."""
        assert self.chip is not None
        return self.chip.float_type(self.result_types[index], self.mode)


class LoweringBuilder(Protocol):
    """What a lowering builds with; calling it appends an op and returns its result."""

    def __call__(
        self, op: Op, operands: Sequence[Value], result: TensorType | None = None, name: str | None = None
    ) -> Value:
        """Append `op`. `result` None infers it; `name` None takes the node's name (the last op must carry it)."""
        ...

    def weight(self, suffix: str, array: Array, element: str | None = None) -> Value:
        """A new constant named `<node>_<suffix>`, stored as MLIR element type `element` (from the dtype when None)."""
        ...

    def none(self) -> Value:
        """The absent operand."""
        ...


class Lowering(Generic[OpT]):
    """Base of every lowering cell. One instance serves all nodes: keep no state.

    Most cells lower ops of the network. A cell for `tpu.Cast` in the table `<chip>.tpu` makes the casts that the
    framework inserts: its node's operand and result types say from what to what; it may give a type that means
    the same.
    """

    channel_scales: ClassVar[bool] = False
    """Does it take and give integers with a scale per channel and no zero point?"""
    float_sums: ClassVar[bool] = False
    """Can it give its int32 sums as f32, where `LoweringNode.float_sums` asks for them?"""

    def serves(self, op: type[Op]) -> bool:
        """Of a lowering for a kind of ops: does it serve this one? Asked without a node, for tables of support."""
        return True

    def refuse(self, node: LoweringNode[OpT]) -> str | None:
        """Why this chip cannot compute this node in this mode, in a sentence without a full stop; None: it can.

        `operands` of the node are not lowered yet and may be empty here; `constants` are given.
        """
        return None

    def takes_zero_points(self, node: LoweringNode[OpT]) -> bool:
        """May operands and results of a network that is quantised already keep their zero points? Asked where the mode
        has none of its own; `operands` of the node are those of the network.
        """
        return False

    def requires(self, node: LoweringNode[OpT]) -> Sequence[Wants]:
        """What each operand must be; constants are never cast. Default: the mode's own type everywhere."""
        return (Wants.MODE,) * len(node.operand_types)

    def lower(self, node: LoweringNode[OpT], build: LoweringBuilder) -> Sequence[Value]:
        """Build the TPU ops; returns one value per result.

        Where the network states the type of a result (`Uniform`), the framework brings a float, or integers of another
        scale, zero point, width or range, to that type: rounding and saturation are part of what such a value means.
        Giving the stated type saves that step.
        """
        raise NotImplementedError
