"""Values kept within bounds, as the chip does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Elementwise, Node, Op, Raw, Types

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.integers import clamped, is_integer
from tpuc_ops.quant.arithmetic import Rounding, quantise_float


@dataclass(frozen=True)
class Clip(Op, Elementwise):
    """``minimum(maximum(x, min), max)``.

    Operand and result share their scale; integers meet the bounds in that scale, rounded half away from zero.
    """

    name = "tpu.Clip"
    min: F64
    max: F64
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        return (x.at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        (x,) = operands
        type = node.result_type
        if not is_integer(type):
            return [stored(np.clip(as_float(x), np.float32(self.min), np.float32(self.max)), type)]
        uniform = type.uniform
        bounds = np.array([self.min, self.max])
        away = Rounding.HALF_AWAY_FROM_ZERO
        low, high = quantise_float(bounds, uniform.scale, uniform.zero_point, away, np.int32)
        return [clamped(np.clip(x.astype(np.int32), low, high), type, False, -1.0)]

    def flops(self, node: Node) -> int:
        return 2 * node.result_type.size
