"""Selection by index along one dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import SI32, Bool, Node, Op, Types

from tpuc_ops.arrays import Array
from tpuc_ops.shapes import positive_axis
from tpuc_ops.traits import ComputedInFloat, MovesElements, ReadsIndices


@dataclass(frozen=True)
class Gather(Op, MovesElements, ComputedInFloat, ReadsIndices):
    """Select elements of `x` by index along `axis`; the index's shape replaces that dimension.

    Indices are integers of any type; negative ones count from the end. Without `keepdims`, an index with one element
    removes the dimension.
    """

    name = "top.Gather"
    axis: SI32 = 0
    keepdims: Bool = True

    def infer(self, operands: Types) -> Types:
        x, indices = operands[:2]
        axis = positive_axis(self.axis, x.rank)
        middle = indices.dims if self.keepdims else ()
        return (x.shape_only().with_shape((*x.dims[:axis], *middle, *x.dims[axis + 1 :])),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, indices = operands[:2]
        return [np.take(x, indices.astype(np.int64), self.axis).reshape(node.result_type.dims)]
