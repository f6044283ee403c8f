"""TFLite's division of quantized values: a fixed-point reciprocal, refined three times by Newton's method."""

from __future__ import annotations

import numpy as np
from tpuc.api import Uniform

from tpuc_ops.quant.arithmetic import Array, Rounding, shift_right
from tpuc_ops.quant.fixed_point import bit_lengths, high_product, shift_left
from tpuc_ops.quant.tflite import Bounds, bounded, centered, multiplier_of

_ONE_F0 = (1 << 31) - 1
"""1 in fixed point with 31 fractional bits (the largest value below it)."""

_ONE_F2 = 1 << 29
"""1 in fixed point with two integer bits, like the two constants below."""

_48_OVER_17 = 1515870810
_32_OVER_17 = 1010580540
"""Best linear approximation of ``1 / x`` between 1/2 and 1: ``48/17 - 32/17 x``."""


def divide(left: Array, right: Array, types: tuple[Uniform, Uniform], y: Uniform, bounds: Bounds) -> Array:
    """``left / right`` in the result's scale. Raises ValueError if a divisor represents 0."""
    top, bottom = np.broadcast_arrays(centered(left, types[0]), centered(right, types[1]))
    if not bottom.all():
        raise ValueError("a divisor represents 0, which the network's own runtime refuses too")
    top, bottom = np.where(bottom < 0, -top, top), np.abs(bottom)
    inverse, digits = _reciprocal(bottom)
    headroom = _leading_sign_bits(top)
    multiplier, shift = multiplier_of(float(np.float32(types[0].scale) / np.float32(types[1].scale * y.scale)))
    quotient = high_product(high_product(top << headroom, inverse), multiplier)
    total = (31 - shift) - digits - headroom
    return bounded(shift_right(quotient, np.maximum(-total, 0), Rounding.HALF_AWAY_FROM_ZERO), y, bounds)


def _reciprocal(x: Array) -> tuple[Array, Array]:
    """Return ``1 / x`` with 31 fractional bits for x scaled into [1, 2), and the number of bits of that scaling."""
    zeros = 32 - bit_lengths(x)
    fraction = (x << zeros) - (1 << 31)
    half = (fraction + _ONE_F0 + 1) >> 1
    estimate = _48_OVER_17 + high_product(half, -_32_OVER_17)
    for _ in range(3):
        error = _ONE_F2 - high_product(half, estimate)
        estimate = estimate + shift_left(high_product(estimate, error), 2)
    return shift_left(estimate, 1), 31 - zeros


def _leading_sign_bits(x: Array) -> Array:
    """Return by how many bits an int32 can be shifted left without overflow."""
    return 31 - bit_lengths(np.where(x < 0, -x - 1, x))
