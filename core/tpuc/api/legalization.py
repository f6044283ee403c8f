"""Legalizations: express a network op by other network ops, for chips that do not compute it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from tpuc.api.lowering import LoweringNode, OpT
from tpuc.ir import ElementType, Op, TensorType, Value

if TYPE_CHECKING:
    import numpy.typing as npt

    from tpuc.api.chip import ChipDescription


class LegalizationBuilder(Protocol):
    """The interface that a legalization builds with: it adds the ops that replace one op."""

    def __call__(
        self, op: Op, operands: Sequence[Value], result: TensorType, name: str, compute_type: str | None = None
    ) -> Value:
        """Add `op` and return its result, which is called `name`.

        `compute_type`: the float mode in which the op is lowered, whatever the network's mode. None: the node's mode,
        which requires a range for an inner value unless the value is only moved.
        """
        ...

    def weight(self, name: str, array: npt.NDArray[Any], element: ElementType | None = None) -> Value:
        """A new float32 constant; `element`: its stored type in a quantized network."""
        ...

    def none(self) -> Value:
        """The value of an absent operand."""
        ...


class Legalization(Generic[OpT]):
    """Base of every legalization. One instance serves all nodes: keep no state.

    It is called for a node without a lowering on the chip, or with a lowering that refuses it. The ops it builds may
    themselves need legalization.
    """

    into: ClassVar[tuple[type[Op], ...]] = ()
    """The ops it builds; a chip supports the op if it supports these."""

    def fits(self, chip: ChipDescription) -> bool:
        """True when the chip has what every node needs besides the ops in `into`. Also called for tables of support."""
        return True

    def refuse(self, node: LoweringNode[OpT]) -> str | None:
        """Why the node cannot be legalized for this chip, in a sentence without a full stop; None if it can.

        `operands` of the node are values of the network; `constants` are given.
        """
        return None

    def rewrite(self, node: LoweringNode[OpT], build: LegalizationBuilder) -> Sequence[Value]:
        """One value per result, with the names of the node's results."""
        raise NotImplementedError
