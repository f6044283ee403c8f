"""New dimensions of extent 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import I64Array, Node, Op, Types

from tpuc_ops.arrays import Array
from tpuc_ops.shapes import positive_axis
from tpuc_ops.traits import Reshapes


@dataclass(frozen=True)
class Unsqueeze(Op, Reshapes):
    """Insert dimensions of extent 1 at the positions `axes` of the result."""

    name = "top.Unsqueeze"
    axes: I64Array

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        rank = x.rank + len(self.axes)
        new = {positive_axis(axis, rank) for axis in self.axes}
        if len(new) != len(self.axes):
            raise ValueError(f"axes {list(self.axes)} name a dimension twice")
        rest = iter(x.dims)
        return (x.shape_only().with_shape(tuple(1 if axis in new else next(rest) for axis in range(rank))),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [operands[0].reshape(node.result_type.dims)]
