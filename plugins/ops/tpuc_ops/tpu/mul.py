"""Product of tensors as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import SI32, Bool, Commutative, Elementwise, Node, Op, Raw, RequantMode, RoundMode, Types

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.elementwise import ReluFields, broadcast_type
from tpuc_ops.integers import clamped, is_integer, requantized, zero_point


@dataclass(frozen=True)
class Mul(ReluFields, Op, Elementwise, Commutative):
    """The product of all operands with broadcasting, then relu.

    Floats: in float32, rounded to the result's width. Integers, exact: the product of all ``q[i] - zp[i]``, times
    `multiplier` by `rshift`, `quant_mode` and `round_mode` as in `tpu.Conv2D`, plus the result's zero point, saturated.
    """

    name = "tpu.Mul"
    multiplier: SI32 = 1
    rshift: SI32 = 0
    quant_mode: RequantMode = "MultiplierShift"
    round_mode: RoundMode = "HalfUp"
    is_scalar: Bool = False
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        return (broadcast_type(operands),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        type = node.result_type
        if is_integer(type):
            product = np.ones((), np.int64)
            for x, operand in zip(operands, node.operand_types, strict=True):
                product = product * (x.astype(np.int64) - zero_point(operand))
            row = product.reshape(1, 1, -1)
            q = requantized(row, (self.multiplier,), (self.rshift,), self.quant_mode, self.round_mode, type)
            return [clamped(q.reshape(product.shape), type, self.do_relu, self.relu_limit)]
        first, *others = (as_float(x) for x in operands)
        for x in others:
            first = first * x
        return [stored(self.activate(first), type)]

    def flops(self, node: Node) -> int:
        return node.result_type.size * (len(node.operand_types) - 1 + self.do_relu)
