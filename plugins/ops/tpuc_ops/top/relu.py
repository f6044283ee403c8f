"""Rectified linear unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import F64, Node

from tpuc_ops import quantized
from tpuc_ops.adjoints import is_open
from tpuc_ops.arrays import Array, relu
from tpuc_ops.elementwise import UnaryOp
from tpuc_ops.traits import (
    Bounded,
    CommutesWithRounding,
    Differentiable,
    Homogeneous,
    KeepsGrid,
    NoLarger,
    TakesResultRange,
)


@dataclass(frozen=True)
class Relu(UnaryOp, CommutesWithRounding, TakesResultRange, KeepsGrid, NoLarger, Bounded, Homogeneous, Differentiable):
    """Element-wise ``max(x, 0)``, limited to `relu_limit` if it is positive."""

    name = "top.Relu"
    relu_limit: F64 = -1.0
    below_zero = "cut"

    def quantized(self, node: Node, operands: Sequence[Array]) -> Array:
        return quantized.relu(node, operands, self.relu_limit)

    def function(self, x: Array) -> Array:
        return relu(x, True, self.relu_limit)

    def bounds(self) -> tuple[float, float] | None:
        return (0.0, self.relu_limit) if self.relu_limit > 0 else None

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array]:
        return [gradient * is_open(result, self.relu_limit)]

    def flops(self, node: Node) -> int:
        (x,) = node.operand_types
        return 2 * x.size if self.relu_limit > 0 else x.size
