"""Clipping to bounds as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Elementwise, Node, Op, Raw, TensorType, Types, numpy_dtype

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.integers import is_integer
from tpuc_ops.quant.arithmetic import Rounding, quantize_float


@dataclass(frozen=True)
class Clip(Op, Elementwise):
    """``minimum(maximum(x, min), max)``.

    Operand and result share their scale; for integers, the bounds are ``round(bound / scale) + zero point``, half away
    from zero.
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
        low, high = self.bounds(node.result_type)
        if is_integer(node.result_type):
            return [np.clip(x, int(low), int(high))]
        return [stored(np.clip(as_float(x), np.float32(low), np.float32(high)), node.result_type)]

    def bounds(self, type: TensorType) -> tuple[float, float]:
        """Return the bounds in the storage of `type`."""
        if not is_integer(type):
            return self.min, self.max
        uniform, dtype = type.uniform, numpy_dtype(type.storage)
        pair = (self.min, self.max)
        low, high = quantize_float(pair, uniform.scale, uniform.zero_point, Rounding.HALF_AWAY_FROM_ZERO, dtype)
        return int(low), int(high)

    def flops(self, node: Node) -> int:
        return 2 * node.result_type.size
