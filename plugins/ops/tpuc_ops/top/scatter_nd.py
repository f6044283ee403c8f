"""Replacement of parts of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import Reduction32
from tpuc_ops.scatter import check_reduction, scatter
from tpuc_ops.shapes import show
from tpuc_ops.traits import ReadsIndices


@dataclass(frozen=True)
class ScatterND(Op, ReadsIndices):
    """Write each update into x at the leading indices given by the last dimension of `indices`; operands: x, indices,
    updates.

    `reduction`: none replaces (the last of several updates wins); add, mul, max, and min combine with the existing
    elements.
    """

    name = "top.ScatterND"
    reduction: Reduction32 = "none"

    def infer(self, operands: Types) -> Types:
        x, indices, updates = operands[:3]
        check_reduction(self.reduction)
        count = indices.dims[-1]
        if count > x.rank or updates.dims != (*indices.dims[:-1], *x.dims[count:]):
            raise ValueError(f"indices {show(indices.dims)} and updates {show(updates.dims)} do not fit {show(x.dims)}")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, indices, updates = as_float(operands[0]), operands[1].astype(np.int64), as_float(operands[2])
        return [scatter(x, tuple(np.moveaxis(indices, -1, 0)), updates, self.reduction)]

    def flops(self, node: Node) -> int:
        return 0 if self.reduction == "none" else node.operand_types[2].size
