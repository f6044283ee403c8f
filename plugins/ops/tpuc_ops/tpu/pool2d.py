"""Pooling as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, I64, SI32, Bool, I64Array, Node, Op, Raw, RoundMode, Types, numpy_dtype

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.attributes import PoolMode
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.integers import clamped, is_integer, zero_point
from tpuc_ops.pooling import window_counts, window_maxima, window_sums
from tpuc_ops.quant.arithmetic import Rounding, requantize, round_to_int, saturate
from tpuc_ops.traits import RowByRow
from tpuc_ops.window import Window, spatial


@dataclass(frozen=True)
class Pool2D(ReluFields, Op, RowByRow):
    """Maximum or average under a sliding window, by `pool_mode` (Max, Avg).

    - Max: stored values are copied; padding is below every value.
    - Avg of floats: the float32 sum divided by the count, padding counted only with `count_include_pad`.
    - Avg of integers: ``sum * multiplier / 2**rshift`` rounded by `round_mode`, where the multiplier includes the
      division by the full window; padding holds the zero point. With `scale` instead:
      ``f32(sum) * f32(scale) + f32(offset)`` rounded by `round_mode`, and `offset` includes the zero points. The result
      is saturated.

    A relu, at the zero point, comes last.
    """

    name = "tpu.Pool2D"
    kernel_shape: I64Array
    pool_mode: PoolMode
    strides: I64Array = (1, 1)
    pads: I64Array = (0, 0, 0, 0)
    pad_value: I64 = 0
    count_include_pad: Bool = False
    is_adaptive: Bool = False
    keepdims: Bool = True
    ceil_mode: Bool | None = None
    multiplier: SI32 = 1
    rshift: SI32 = 0
    scale: F64 | None = None
    offset: F64 | None = None
    round_mode: RoundMode = "HalfAwayFromZero"
    first_round_mode: RoundMode = "HalfAwayFromZero"
    ginfo: Raw = None

    def window(self) -> Window:
        """Return the sliding window over rows and columns; raises ValueError if the attributes contradict each
        other.
        """
        return Window.of(self.kernel_shape, self.strides, self.pads, ceil=bool(self.ceil_mode))

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if self.pool_mode not in ("Max", "Avg"):
            raise ValueError(f"pool_mode must be Max or Avg, this one is {self.pool_mode}")
        dims = (*x.dims[:2], *self.window().output(spatial(x.dims, 2)))
        element = x.element if self.pool_mode == "Max" else x.shape_only().element
        return (x.with_shape(dims if self.keepdims else dims[:2]).with_element(element),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        (x,) = operands
        type, result = node.operand_types[0], node.result_type
        if is_integer(type):
            pooled = window_maxima(x, self.window()) if self.pool_mode == "Max" else self._average(x, node)
            return [clamped(pooled, result, self.do_relu, self.relu_limit).reshape(result.dims)]
        x = as_float(x)
        pooled = window_maxima(x, self.window()) if self.pool_mode == "Max" else self._mean(x)
        return [stored(self.activate(pooled), result).reshape(result.dims)]

    def _mean(self, x: Array) -> Array:
        pad_value = self.pad_value if self.count_include_pad else 0
        counts = window_counts((x.shape[2], x.shape[3]), self.window(), self.count_include_pad)
        return window_sums(x, self.window(), pad_value) / counts

    def _average(self, x: Array, node: Node) -> Array:
        dtype, rounding = numpy_dtype(node.result_type.storage), Rounding(self.round_mode)
        sums = window_sums(x.astype(np.int64), self.window(), zero_point(node.operand_types[0]))
        if self.scale is not None:
            scaled = sums.astype(np.float32) * np.float32(self.scale) + np.float32(self.offset or 0.0)
            return saturate(round_to_int(scaled, rounding), dtype)
        return requantize(sums, self.multiplier, self.rshift, 0, rounding, dtype)

    def flops(self, node: Node) -> int:
        return node.result_type.size * (self.window().taps + self.do_relu)
