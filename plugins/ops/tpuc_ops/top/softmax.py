"""Softmax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from tpuc.api import F64, Bool, Node, Op, Str, Types

from tpuc_ops import elementary, quantized
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import FormerI64
from tpuc_ops.shapes import positive_axis
from tpuc_ops.traits import Bounded, ComputedInFloat, Differentiable


@dataclass(frozen=True)
class Softmax(Op, quantized.Rescales, Bounded, ComputedInFloat, Differentiable):
    """``exp(beta * x)`` divided by its sum along `axis`; with `log`, the logarithm of that."""

    name = "top.Softmax"
    axis: FormerI64 = -1
    beta: F64 = 1.0
    log: Bool = False
    round_mode: Str = field(default="HalfAwayFromZero", kw_only=True)

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        positive_axis(self.axis, x.rank)
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.softmax(self, node, operands)]
        return [softmax(as_float(operands[0]), self.axis, self.beta, self.log)]

    def bounds(self) -> tuple[float, float] | None:
        return None if self.log else (0.0, 1.0)

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array] | None:
        if self.log:
            return None
        mean = (gradient * result).sum(self.axis, keepdims=True)
        return [np.float32(self.beta) * result * (gradient - mean)]

    def flops(self, node: Node) -> int:
        return 5 * node.result_type.size


def softmax(x: Array, axis: int, beta: float, log: bool) -> Array:
    """Compute the softmax in float32; the maximum is subtracted first so that no exponential overflows. All -inf gives
    NaN.
    """
    with np.errstate(invalid="ignore"):
        below = np.float32(beta) * (x - x.max(axis, keepdims=True))
    exponentials = elementary.exp(below)
    sums = exponentials.sum(axis, keepdims=True)
    return below - elementary.log(sums) if log else exponentials / sums
