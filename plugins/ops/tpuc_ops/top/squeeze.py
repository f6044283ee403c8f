"""Removal of dimensions of extent 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import I64Array, Node, Op, Types

from tpuc_ops.arrays import Array
from tpuc_ops.shapes import positive_axis, show
from tpuc_ops.traits import Reshapes


@dataclass(frozen=True)
class Squeeze(Op, Reshapes):
    """Remove the dimensions `axes`, which must have extent 1; if `axes` is empty, all dimensions of extent 1."""

    name = "top.Squeeze"
    axes: I64Array = ()

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        gone = {positive_axis(axis, x.rank) for axis in self.axes} or {i for i, d in enumerate(x.dims) if d == 1}
        for axis in sorted(gone):
            if x.dims[axis] != 1:
                raise ValueError(
                    f"dimension {axis} of {show(x.dims)} has extent {x.dims[axis]}, only extent 1 can be removed"
                )
        return (x.shape_only().with_shape(tuple(d for i, d in enumerate(x.dims) if i not in gone)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [operands[0].reshape(node.result_type.dims)]
