"""Leaky rectified linear unit as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, SI32, Elementwise, Node, Op, Raw, RoundMode, Types

from tpuc_ops.arrays import Array, as_float, held, stored
from tpuc_ops.integers import clamped, is_integer, zero_point
from tpuc_ops.quant.arithmetic import Rounding, shift_right


@dataclass(frozen=True)
class LeakyRelu(Op, Elementwise):
    """``x`` above 0, ``alpha * x`` below.

    Integers, exact, with ``v = q - zp``: for v >= 0, ``v * multiplier / 2**rshift``, or v itself without `multiplier`;
    below, ``v * multiplier_neg / 2**rshift_neg``; rounded by `round_mode`, plus the result's zero point, saturated.
    `alpha` is ignored then. A `multiplier` alone applies to negative values, as TPU-MLIR defines it for some chips.
    """

    name = "tpu.LeakyRelu"
    alpha: F64 | None = None
    multiplier: SI32 | None = None
    rshift: SI32 | None = None
    multiplier_neg: SI32 | None = None
    rshift_neg: SI32 | None = None
    round_mode: RoundMode = "HalfUp"
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        x = operands[0]
        needed = (self.multiplier_neg, self.multiplier) if is_integer(x) else (self.alpha,)
        if all(value is None for value in needed):
            raise ValueError("integers need multiplier_neg, floats need alpha")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, type = operands[0], node.result_type
        if not is_integer(type):
            values = as_float(x)
            return [stored(np.where(values > 0, values, held(self.alpha or 0.0, node.operand_types[0]) * values), type)]
        values = x.astype(np.int64) - zero_point(node.operand_types[0])
        if self.multiplier_neg is None:
            above, below = values, self._scaled(values, self.multiplier or 0, self.rshift)
        else:
            above = values if self.multiplier is None else self._scaled(values, self.multiplier, self.rshift)
            below = self._scaled(values, self.multiplier_neg, self.rshift_neg)
        return [clamped(np.where(values >= 0, above, below) + zero_point(type), type, False, -1.0)]

    def _scaled(self, values: Array, multiplier: int, shift: int | None) -> Array:
        return shift_right(values * multiplier, shift or 0, Rounding(self.round_mode))

    def flops(self, node: Node) -> int:
        return node.result_type.size
