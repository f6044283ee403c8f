"""Difference of two tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import Bool, Elementwise, F64Array, Node, Op, Types, Uniform

from tpuc_ops import quantized
from tpuc_ops.adjoints import sum_gradients
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.elementwise import ReluFields, broadcast_type, weighted
from tpuc_ops.traits import Differentiable, KeepsSign


@dataclass(frozen=True)
class Sub(ReluFields, Op, Elementwise, quantized.Rescales, KeepsSign, Differentiable):
    """``coeff[0] * x - coeff[1] * y`` with broadcasting, operands exchanged with `is_reverse`, then relu."""

    name = "top.Sub"
    coeff: F64Array | None = None
    is_reverse: Bool = False

    def infer(self, operands: Types) -> Types:
        if len(operands) != 2 or (self.coeff and len(self.coeff) != 2):
            raise ValueError(f"two operands and none or two coeff are needed, there are {len(operands)} operands")
        return (broadcast_type(operands),)

    def takes_integers(self, operands: Types, result: Uniform) -> bool:
        return len(operands) == 2 and not self.coeff and super().takes_integers(operands, result)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.add(self, node, operands, (-1, 1) if self.is_reverse else (1, -1))]
        x, y = weighted([as_float(operand) for operand in operands], self.coeff)
        return [self.activate(y - x if self.is_reverse else x - y)]

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array]:
        return sum_gradients(operands, gradient, self.coeff or (1.0, -1.0))

    def flops(self, node: Node) -> int:
        return node.result_type.size * (1 + self.do_relu)
