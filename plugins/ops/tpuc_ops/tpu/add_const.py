"""Sum with a constant as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, SI32, Elementwise, Node, Op, Raw, Types

from tpuc_ops.arrays import Array, as_float, held, stored
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.integers import clamped, is_integer, zero_point
from tpuc_ops.quant.arithmetic import Rounding, round_to_int, shift_right


@dataclass(frozen=True)
class AddConst(ReluFields, Op, Elementwise):
    """``x + const_val``, then relu.

    Integers, exact: ``half_up(((q - zp) * multiplier + const_val) / 2**rshift)`` with an integer `const_val`, plus the
    result's zero point, saturated.
    """

    name = "tpu.AddConst"
    const_val: F64
    multiplier: SI32 = 1
    rshift: SI32 = 0
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        (x,) = operands
        type = node.result_type
        if not is_integer(type):
            return [stored(self.activate(as_float(x) + held(self.const_val, node.operand_types[0])), type)]
        product = (x.astype(np.int64) - zero_point(node.operand_types[0])) * self.multiplier
        total = product + round_to_int(self.const_val, Rounding.HALF_AWAY_FROM_ZERO)
        q = shift_right(total, self.rshift, Rounding.HALF_UP) + zero_point(type)
        return [clamped(q, type, self.do_relu, self.relu_limit)]

    def flops(self, node: Node) -> int:
        return node.result_type.size * (1 + self.do_relu)
