"""Product of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import SI32, Commutative, Elementwise, Node, Op, Types, Uniform

from tpuc_ops import quantized
from tpuc_ops.adjoints import unbroadcast
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.elementwise import ReluFields, broadcast_type
from tpuc_ops.traits import Differentiable, KeepsSign


@dataclass(frozen=True)
class Mul(ReluFields, Op, Elementwise, Commutative, quantized.Rescales, KeepsSign, Differentiable):
    """The product of all operands with broadcasting, then relu; `multiplier` and `rshift` are for lowerings."""

    name = "top.Mul"
    multiplier: SI32 = 1
    rshift: SI32 = 0

    def infer(self, operands: Types) -> Types:
        return (broadcast_type(operands),)

    def takes_integers(self, operands: Types, result: Uniform) -> bool:
        return len(operands) == 2 and super().takes_integers(operands, result)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.multiply(self, node, operands)]
        first, *others = (as_float(x) for x in operands)
        for x in others:
            first = first * x
        return [self.activate(first)]

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array] | None:
        if len(operands) != 2:
            return None
        a, b = operands
        return [unbroadcast(gradient * b, a.shape), unbroadcast(gradient * a, b.shape)]

    def flops(self, node: Node) -> int:
        return node.result_type.size * (len(node.operand_types) - 1 + self.do_relu)
