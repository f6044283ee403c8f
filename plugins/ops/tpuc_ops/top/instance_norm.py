"""Instance normalization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import F64, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import listed
from tpuc_ops.normalization import normalized, per_channel


@dataclass(frozen=True)
class InstanceNorm(Op):
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` over all dimensions after the first two.

    Operands: x, weight, and bias; the latter two, per channel, may be absent.
    """

    name = "top.InstanceNorm"
    slots = listed(3, kept=3)
    eps: F64 = 1e-5

    def infer(self, operands: Types) -> Types:
        if operands[0].rank < 3:
            raise ValueError(f"at least three dimensions are needed, there are {operands[0].rank}")
        return (operands[0].shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = as_float(operands[0])
        return [per_channel(normalized(x, tuple(range(2, x.ndim)), self.eps), operands[1:])]

    def flops(self, node: Node) -> int:
        return 8 * node.result_type.size
