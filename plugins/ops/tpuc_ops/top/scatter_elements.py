"""Replacement of single elements of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import I64, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import Reduction
from tpuc_ops.scatter import check_reduction, scatter
from tpuc_ops.shapes import positive_axis, show
from tpuc_ops.traits import ReadsIndices


@dataclass(frozen=True)
class ScatterElements(Op, ReadsIndices):
    """Write each update into x at its index along `axis`, and at its own position elsewhere; operands: x, indices,
    updates.

    `reduction`: none replaces (the last of several updates wins); add, mul, max, and min combine with the existing
    element.
    """

    name = "top.ScatterElements"
    axis: I64
    reduction: Reduction = "none"

    def infer(self, operands: Types) -> Types:
        x, indices, updates = operands[:3]
        positive_axis(self.axis, x.rank)
        check_reduction(self.reduction)
        if indices.dims != updates.dims or indices.rank != x.rank:
            raise ValueError(f"indices {show(indices.dims)} and updates {show(updates.dims)} do not fit {show(x.dims)}")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, indices, updates = as_float(operands[0]), operands[1].astype(np.int64), as_float(operands[2])
        places: list[Any] = [*np.indices(indices.shape)]
        places[self.axis] = indices
        return [scatter(x, tuple(places), updates, self.reduction)]

    def flops(self, node: Node) -> int:
        return 0 if self.reduction == "none" else node.operand_types[2].size
