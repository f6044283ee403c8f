"""Rectified linear unit with a learnt slope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Elementwise, Node, Op, Types

from tpuc_ops import quantised
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.shapes import broadcast, show


@dataclass(frozen=True)
class PRelu(Op, Elementwise, quantised.Rescales):
    """``x`` above 0, ``slope * x`` below; the slope broadcasts to `x: [n, c, ...]`, usually as `[1, c, 1, 1]`."""

    name = "top.PRelu"

    def infer(self, operands: Types) -> Types:
        x, slope = operands
        if broadcast(x.dims, slope.dims) != x.dims:
            raise ValueError(f"slope {show(slope.dims)} does not broadcast to {show(x.dims)}")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantised.is_quantised(node):
            return [quantised.prelu(self, node, operands)]
        x, slope = (as_float(operand) for operand in operands)
        return [np.where(x > 0, x, slope * x)]

    def flops(self, node: Node) -> int:
        return node.result_type.size
