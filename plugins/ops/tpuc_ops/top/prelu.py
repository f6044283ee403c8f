"""Rectified linear unit with a learned slope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Elementwise, Node, Op, Types

from tpuc_ops import quantized
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.shapes import broadcast, show
from tpuc_ops.traits import Differentiable, Homogeneous, TakesResultRange


@dataclass(frozen=True)
class PRelu(Op, Elementwise, quantized.Rescales, TakesResultRange, Homogeneous, Differentiable):
    """``x`` above 0, ``slope * x`` below; the slope broadcasts to `x: [n, c, ...]`, usually as `[1, c, 1, 1]`."""

    name = "top.PRelu"
    below_zero = "sloped"

    def infer(self, operands: Types) -> Types:
        x, slope = operands
        if broadcast(x.dims, slope.dims) != x.dims:
            raise ValueError(f"slope {show(slope.dims)} does not broadcast to {show(x.dims)}")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.prelu(self, node, operands)]
        x, slope = (as_float(operand) for operand in operands)
        return [np.where(x > 0, x, slope * x)]

    def flops(self, node: Node) -> int:
        return node.result_type.size

    def beyond(self, low: float, high: float, constants: Sequence[Array | None]) -> Sequence[float]:
        slopes = constants[1]
        return () if slopes is None else (float(slopes.min()) * low, float(slopes.max()) * low)

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array | None]:
        return [np.where(operands[0] > 0, gradient, gradient * operands[1]), None]
