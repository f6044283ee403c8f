"""Legalisations: an op of the network in terms of other ops of the network, for chips that do not compute it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from tpuc.api.lowering import LoweringNode, OpT
from tpuc.ir import ElementType, Op, TensorType, Value

if TYPE_CHECKING:
    import numpy.typing as npt

    from tpuc.api.chip import ChipDescription


class LegalisationBuilder(Protocol):
    """What a legalisation builds with: ops of the network that take the place of one."""

    def __call__(
        self, op: Op, operands: Sequence[Value], result: TensorType, name: str, compute_type: str | None = None
    ) -> Value:
        """Add `op` and return its result, which is called `name`.

        `compute_type`: the float mode it is lowered in whatever the mode of the network is; None: the node's mode, for
        which an inner value needs a range of its own or must be one that is only moved.
        """
        ...

    def weight(self, name: str, array: npt.NDArray[Any], element: ElementType | None = None) -> Value:
        """A new constant of float32; `element`: how a quantised network stores it."""
        ...

    def none(self) -> Value:
        """The absent operand."""
        ...


class Legalisation(Generic[OpT]):
    """Base of every legalisation. One instance serves all nodes: keep no state.

    It is asked for a node that the chip has no lowering for, or whose lowering refuses it. What it builds may need
    legalisation itself.
    """

    into: ClassVar[tuple[type[Op], ...]] = ()
    """The ops it is built of; a chip can have the op where it has these."""

    def fits(self, chip: ChipDescription) -> bool:
        """Has the chip what every node needs, beside the ops in `into`? Asked for tables of support too."""
        return True

    def refuse(self, node: LoweringNode[OpT]) -> str | None:
        """Why the node cannot be legalised for this chip, in a sentence without a full stop; None: it can.

        `operands` of the node are values of the network; `constants` are given.
        """
        return None

    def rewrite(self, node: LoweringNode[OpT], build: LegalisationBuilder) -> Sequence[Value]:
        """One value per result, called as the node's results are."""
        raise NotImplementedError
