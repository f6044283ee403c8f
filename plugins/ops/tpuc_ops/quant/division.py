"""TFLite's quotients of quantised values: a reciprocal in fixed point, refined three times."""

from __future__ import annotations

import numpy as np
from tpuc.api import Uniform

from tpuc_ops.quant.arithmetic import Array, Rounding, shift_right
from tpuc_ops.quant.tflite import Bounds, bounded, centred, multiplier_of

_ONE_F0 = (1 << 31) - 1
"""1 where all 31 bits are a fraction."""

_ONE_F2 = 1 << 29
_48_OVER_17 = 1515870810
_32_OVER_17 = 1010580540
"""With two bits before the point."""


def divide(left: Array, right: Array, types: tuple[Uniform, Uniform], y: Uniform, bounds: Bounds) -> Array:
    """``left / right`` in the result's scale. Raises ValueError where a divisor stands for 0."""
    top, bottom = np.broadcast_arrays(centred(left, types[0]), centred(right, types[1]))
    if not bottom.all():
        raise ValueError("it divides by a value that stands for 0, which the network's own runtime refuses too")
    top, bottom = np.where(bottom < 0, -top, top), np.abs(bottom)
    inverse, digits = _reciprocal(bottom)
    headroom = _leading_sign_bits(top)
    multiplier, shift = multiplier_of(float(np.float32(types[0].scale) / np.float32(types[1].scale * y.scale)))
    quotient = _high(_high(top << headroom, inverse), np.asarray(multiplier))
    total = (31 - shift) - digits - headroom
    return bounded(shift_right(quotient, np.maximum(-total, 0), Rounding.HALF_AWAY_FROM_ZERO), y, bounds)


def _reciprocal(x: Array) -> tuple[Array, Array]:
    """``1 / x`` with 31 fractional bits, for x scaled into [1, 2), and by how many bits that was."""
    zeros = 32 - _bits(x)
    fraction = (x << zeros) - (1 << 31)
    half = (fraction + _ONE_F0 + 1) >> 1
    estimate = _48_OVER_17 + _high(half, np.asarray(-_32_OVER_17))
    for _ in range(3):
        error = _ONE_F2 - _high(half, estimate)
        estimate = estimate + _clip32(_high(estimate, error) << 2)
    return _clip32(estimate << 1), 31 - zeros


def _high(x: Array, y: Array) -> Array:
    """The upper half of the doubled product of two int32, rounded half up."""
    return (x * y + (1 << 30)) >> 31


def _bits(x: Array) -> Array:
    """How many bits a positive number below 2**31 takes."""
    return np.frexp(x.astype(np.float64))[1].astype(np.int64)


def _leading_sign_bits(x: Array) -> Array:
    """How far an int32 can be shifted before it overflows."""
    return 31 - _bits(np.where(x < 0, -x - 1, x))


def _clip32(x: Array) -> Array:
    return np.clip(x, -(1 << 31), (1 << 31) - 1)
