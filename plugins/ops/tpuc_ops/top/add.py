"""Sum of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import Bool, Commutative, Elementwise, F64Array, Node, Op, Types, Uniform

from tpuc_ops import quantized
from tpuc_ops.adjoints import sum_gradients
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.elementwise import ReluFields, broadcast_type, weighted
from tpuc_ops.traits import Differentiable, KeepsSign


@dataclass(frozen=True)
class Add(ReluFields, Op, Elementwise, Commutative, quantized.Rescales, KeepsSign, Differentiable):
    """``sum(coeff[i] * x[i])`` with broadcasting, then relu; without `coeff`, all factors are 1.

    `is_scalar` only records that an operand has one element.
    """

    name = "top.Add"
    coeff: F64Array | None = None
    is_scalar: Bool = False

    def infer(self, operands: Types) -> Types:
        if self.coeff and len(self.coeff) != len(operands):
            raise ValueError(f"coeff has {len(self.coeff)} factors for {len(operands)} operands")
        return (broadcast_type(operands),)

    def takes_integers(self, operands: Types, result: Uniform) -> bool:
        return len(operands) == 2 and not self.coeff and super().takes_integers(operands, result)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.add(self, node, operands, (1, 1))]
        first, *others = weighted([as_float(x) for x in operands], self.coeff)
        for x in others:
            first = first + x
        return [self.activate(first, in_place=bool(others))]

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array]:
        return sum_gradients(operands, gradient, self.coeff or (1.0,) * len(operands))

    def flops(self, node: Node) -> int:
        return node.result_type.size * (len(node.operand_types) - 1 + self.do_relu)
