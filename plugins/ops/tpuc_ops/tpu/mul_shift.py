"""Requantization of stored integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import SI32, Elementwise, Node, Op, Raw, RoundMode, Types

from tpuc_ops.arrays import Array
from tpuc_ops.integers import clamped, zero_point
from tpuc_ops.quant.arithmetic import Rounding, shift_right


@dataclass(frozen=True)
class MulShift(Op, Elementwise):
    """``(q - zp) * multiplier / 2**rshift`` rounded by `round_mode`, plus the result's zero point, saturated."""

    name = "tpu.MulShift"
    multiplier: SI32
    rshift: SI32
    round_mode: RoundMode = "HalfUp"
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        product = (operands[0].astype(np.int64) - zero_point(node.operand_types[0])) * self.multiplier
        q = shift_right(product, self.rshift, Rounding(self.round_mode)) + zero_point(node.result_type)
        return [clamped(q, node.result_type, False, -1.0)]

    def flops(self, node: Node) -> int:
        return 2 * node.result_type.size
