"""Rectified linear unit with a learned slope, as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import SI32, Elementwise, Node, Op, Raw, RoundMode, Types

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.integers import clamped, is_integer, zero_point
from tpuc_ops.quant.arithmetic import Rounding, shift_right


@dataclass(frozen=True)
class PReluOp(Op, Elementwise):
    """``x`` above 0, ``slope * x`` below; the slope broadcasts, usually as `[1, c, 1, 1]`.

    Integers, exact, with ``v = q - zp``: above 0, ``v * multiplier_pos / 2**rshift_pos``, or v itself if these are
    absent; below, ``v * slope / 2**rshift`` with integer slopes; rounded by `round_mode`, plus the result's zero point,
    saturated.
    """

    name = "tpu.PReluOp"
    rshift: SI32 = 0
    multiplier_pos: SI32 | None = None
    rshift_pos: SI32 | None = None
    round_mode: RoundMode = "HalfUp"
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        return (operands[0].shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, slope = operands[:2]
        type = node.result_type
        if not is_integer(type):
            values = as_float(x)
            return [stored(np.where(values > 0, values, as_float(slope) * values), type)]
        values, rounding = x.astype(np.int64) - zero_point(node.operand_types[0]), Rounding(self.round_mode)
        above = values
        if self.multiplier_pos is not None:
            above = shift_right(values * self.multiplier_pos, self.rshift_pos or 0, rounding)
        below = shift_right(values * slope.astype(np.int64), self.rshift, rounding)
        return [clamped(np.where(values >= 0, above, below) + zero_point(type), type, False, -1.0)]

    def flops(self, node: Node) -> int:
        return node.result_type.size
