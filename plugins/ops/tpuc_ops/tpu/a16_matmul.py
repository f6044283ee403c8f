"""Matrix product with a matrix of small integers, as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import Node, Op, Raw, Types

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.attributes import listed
from tpuc_ops.products import matmul
from tpuc_ops.weight_only import WeightOnlyFields, product_dims, weight_only_flops


@dataclass(frozen=True)
class A16MatMul(WeightOnlyFields, Op):
    """``x @ matrix.T + bias`` of 16-bit floats; the matrix is stored as integers with scales of groups.

    Operands as of `top.A16MatMul`; scales have the type of `x`, a bias is f32. ``(integer - zp) * scale`` is rounded to
    the type of `x`; the product is summed in float32 with the bias and rounded once.
    """

    name = "tpu.A16MatMul"
    slots = listed(5, kept=5)
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        self.check(operands)
        return (operands[0].shape_only().with_shape(product_dims(operands)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, weight, scale, zp, *bias = operands
        left = node.operand_types[0]
        real = self.real(as_float(weight) if self.weight_bits == 16 else weight, as_float(scale), zp, x.shape[-1])
        matrix = as_float(stored(real, left.with_shape(real.shape)))
        result = matmul(as_float(x), matrix.T)
        return [stored(result + as_float(bias[0]) if bias and bias[0].size else result, node.result_type)]

    def flops(self, node: Node) -> int:
        return weight_only_flops(node)
