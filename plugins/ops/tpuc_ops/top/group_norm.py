"""Group normalization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import F64, I64, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import listed
from tpuc_ops.normalization import normalized, per_channel
from tpuc_ops.shapes import show


@dataclass(frozen=True)
class GroupNorm(Op):
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` over each of `num_groups` groups of adjacent channels.

    Operands: x, weight, and bias; the latter two, per channel, may be absent.
    """

    name = "top.GroupNorm"
    slots = listed(3, kept=3)
    num_groups: I64
    eps: F64 = 1e-5

    def infer(self, operands: Types) -> Types:
        x = operands[0]
        if x.rank < 2 or self.num_groups < 1 or x.dims[1] % self.num_groups:
            raise ValueError(f"{self.num_groups} groups do not divide the channels of {show(x.dims)}")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = as_float(operands[0])
        groups = x.reshape(x.shape[0], self.num_groups, -1)
        return [per_channel(normalized(groups, (2,), self.eps).reshape(x.shape), operands[1:])]

    def flops(self, node: Node) -> int:
        return 8 * node.result_type.size
