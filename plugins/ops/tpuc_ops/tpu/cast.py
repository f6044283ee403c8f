"""Conversion between floats and stored integers, and between float widths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import BF16, Bool, Node, Op, Raw, RoundMode, TensorType, Uniform, numpy_dtype

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.quant.arithmetic import Rounding, round_to_int, saturate
from tpuc_ops.traits import RowByRow

WHOLE = 1.5 * 2.0**23
"""Adding this to a float32 number below 2^22 and subtracting it again rounds to the nearest integer, halves to even.
Needed on targets that can round only when converting to integers.
"""
_LARGEST = np.float32(2.0**128 - 2.0**120)
"""The largest bf16 number."""


@dataclass(frozen=True)
class Cast(Op, RowByRow):
    """Convert the operand to the declared result type.

    - Float to quantized: ``x * f32(1 / scale)`` and ``+ zero point``, each rounded to float32, then rounded to an
      integer by `round_mode` and saturated; NaN becomes 0. HalfToEven follows ONNX's QuantizeLinear: the quotient ``x /
      f32(scale)`` is rounded to float32, then to an integer, and the zero point is added.
    - Quantized to float: ``(q - zero point) * f32(scale)``, rounded to float32 once, then to the result's width.
    - Float to float: round to nearest even. To bf16, `round_mode` TowardsZero drops the lower half; with `round_half`,
      ties round away from zero, and overflow becomes the largest bf16 number unless there is none (`is_bounded`).

    Without `with_scale`, or for integer types without a scale, the scale is 1 and the zero point 0. With `in_half`, the
    product with the scale is computed in bf16: f32 operands are truncated to bf16, or rounded half away from zero with
    `round_half`; factor and product are rounded to nearest even.
    """

    name = "tpu.Cast"
    with_scale: Bool = True
    round_mode: RoundMode = "HalfAwayFromZero"
    in_half: Bool = False
    round_half: Bool = False
    is_bounded: Bool = False
    ginfo: Raw = None

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        (x,) = operands
        source, result = node.operand_types[0], node.result_type
        if not source.storage.is_float and not result.storage.is_float:
            raise ValueError("one side of a cast must be a float, both are integers")
        if not source.storage.is_float:
            return [stored(self._dequantize(x, source), result)]
        if result.storage.is_float:
            x = as_float(x)
            if result.storage == BF16 and self.round_half:
                x = _rounded_away(x)
            elif result.storage == BF16 and Rounding(self.round_mode) is Rounding.TOWARDS_ZERO:
                x = _cut(x)
            return [stored(x, result)]
        return [self._quantize(as_float(x), result)]

    def divides(self, result: TensorType) -> bool:
        """True if quotients are rounded, as in ONNX."""
        even = Rounding(self.round_mode) is Rounding.HALF_TO_EVEN
        return even and self.with_scale and not self.in_half and isinstance(result.element, Uniform)

    def _scale(self, type: TensorType) -> tuple[float, int]:
        if self.with_scale and isinstance(type.element, Uniform):
            return type.element.scale, type.element.zero_point
        return 1.0, 0

    def _quantize(self, x: Array, type: TensorType) -> Array:
        scale, zero_point = self._scale(type)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.divides(type):
                whole = np.rint(x / np.float32(scale)) + np.float32(zero_point)
                return saturate(round_to_int(whole, Rounding.HALF_TO_EVEN), numpy_dtype(type.storage))
            if self.in_half:
                near = _rounded_away(x) if self.round_half else _cut(x)
                scaled = _half(near * _half(np.asarray(1.0 / scale, np.float32)))
            else:
                scaled = x * np.float32(1.0 / scale)
            if zero_point:
                scaled = scaled + np.float32(zero_point)
        return saturate(round_to_int(scaled, Rounding(self.round_mode)), numpy_dtype(type.storage))

    def _dequantize(self, q: Array, type: TensorType) -> Array:
        scale, zero_point = self._scale(type)
        x = (q.astype(np.int64) - zero_point).astype(np.float32)
        return _half(x * _half(np.asarray(scale, np.float32))) if self.in_half else x * np.float32(scale)


def _cut(x: Array) -> Array:
    """Truncate float32 to bf16."""
    return (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def _rounded_away(x: Array) -> Array:
    """Round to the nearest finite bf16 number, ties away from 0; as float32."""
    near = _cut((x.view(np.uint32) + np.uint32(0x8000)).view(np.float32))
    return np.where(np.isfinite(near), near, np.copysign(_LARGEST, near))


def _half(x: Array) -> Array:
    """Round to bf16; as float32."""
    return x.astype(numpy_dtype(BF16)).astype(np.float32)
