"""Selection by one index per element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Node, Op, Types

from tpuc_ops.arrays import Array
from tpuc_ops.shapes import positive_axis, show
from tpuc_ops.traits import ReadsIndices


@dataclass(frozen=True)
class GatherElements(Op, ReadsIndices):
    """For each index, select the element of x at that index along `axis`, and at the index's own position elsewhere.

    Negative indices count from the end.
    """

    name = "top.GatherElements"
    axis: I64 = 2

    def infer(self, operands: Types) -> Types:
        x, indices = operands[:2]
        axis = positive_axis(self.axis, x.rank)
        if indices.rank != x.rank or any(
            own > other for index, (own, other) in enumerate(zip(indices.dims, x.dims, strict=True)) if index != axis
        ):
            raise ValueError(f"indices {show(indices.dims)} do not fit {show(x.dims)} along axis {axis}")
        return (x.shape_only().with_shape(indices.dims),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, indices = operands[0], operands[1].astype(np.int64)
        places: list[Array] = list(np.indices(indices.shape, sparse=True))
        places[self.axis] = indices
        return [x[tuple(places)]]
