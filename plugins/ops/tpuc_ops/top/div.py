"""Quotient of two tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import SI32, Bool, Elementwise, Node, Op, Types

from tpuc_ops import quantized
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.elementwise import ReluFields, broadcast_type
from tpuc_ops.traits import ComputedInFloat


@dataclass(frozen=True)
class Div(ReluFields, Op, Elementwise, ComputedInFloat):
    """``x / y`` with broadcasting, or ``y / x`` with `is_reverse`, then relu; a zero divisor gives infinity or NaN."""

    name = "top.Div"
    is_reverse: Bool = False
    multiplier: SI32 = 1
    rshift: SI32 = 0

    def infer(self, operands: Types) -> Types:
        if len(operands) != 2:
            raise ValueError(f"two operands are needed, there are {len(operands)}")
        return (broadcast_type(operands),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.divide(self, node, operands)]
        x, y = (as_float(operand) for operand in operands)
        with np.errstate(divide="ignore", invalid="ignore"):
            return [self.activate(y / x if self.is_reverse else x / y)]

    def flops(self, node: Node) -> int:
        return node.result_type.size * (1 + self.do_relu)
