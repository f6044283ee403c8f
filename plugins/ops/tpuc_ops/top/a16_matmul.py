"""Matrix product with a matrix of small integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import listed
from tpuc_ops.products import matmul
from tpuc_ops.weight_only import WeightOnlyFields, product_dims, weight_only_flops


@dataclass(frozen=True)
class A16MatMul(WeightOnlyFields, Op):
    """``x @ matrix.T + bias``, where `matrix` is stored as integers with scales and zero points of groups.

    Operands: `x: [..., depth]`, `weight: [columns, bytes]`, `scale` and `zp: [columns, groups]`, `bias: [columns]`,
    which may be absent.
    """

    name = "top.A16MatMul"
    slots = listed(5, kept=5)

    def infer(self, operands: Types) -> Types:
        self.check(operands)
        return (operands[0].shape_only().with_shape(product_dims(operands)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, weight, scale, zp, *bias = operands
        result = matmul(as_float(x), self.real(weight, scale, zp, x.shape[-1]).T)
        return [result + as_float(bias[0]) if bias and bias[0].size else result]

    def flops(self, node: Node) -> int:
        return weight_only_flops(node)
