"""TFLite's L2 normalization: a fixed-point reciprocal square root, refined five times by Newton's method."""

from __future__ import annotations

import numpy as np
from tpuc.api import Uniform, numpy_dtype

from tpuc_ops.quant.arithmetic import Array, Rounding, integer_limits, requantize_qdm
from tpuc_ops.quant.fixed_point import bit_lengths, high_product, shift_left
from tpuc_ops.quant.tflite import bounded, centered

STEPS = 128
"""The runtime always returns results in steps of 1/128, whatever their type says."""

_STEP_BITS = STEPS.bit_length() - 1
_INT32_MAX = (1 << 31) - 1
_ONE_F3 = 1 << 28
"""1 in fixed point with three integer bits, like all numbers below."""

_THREE_HALVES_F3 = 3 << 27
_HALF_ROOT_OF_2 = round(2**0.5 / 2 * 2**31)
"""In fixed point with 31 fractional bits."""

_REFINEMENTS = 5
"""Number of Newton steps from 1 on, as in the runtime."""

_MOST_BITS = 29
"""Sums of squares are scaled by powers of 4 to 28 or 29 bits."""

_ROOT_BITS = 11
"""For such a sum, the computed fraction is ``2**11`` times its reciprocal root, which lies between 0.35 and 0.71."""


def normalize(x: Array, axis: int, source: Uniform, y: Uniform) -> Array:
    """Divide each row along `axis` by the root of its sum of squares; a row of zeros stays zero."""
    center = centered(x, source)
    multipliers, shifts = _reciprocal_roots(np.square(center).sum(axis, keepdims=True))
    if y.storage.is_unsigned:  # these kernels widen the operand, the signed ones the shift: the roundings differ
        center = center << _STEP_BITS
    else:
        shifts = shifts - _STEP_BITS
    whole = requantize_qdm(center, multipliers, shifts, 0, Rounding.HALF_AWAY_FROM_ZERO, np.int32)
    return bounded(whole, y, integer_limits(numpy_dtype(y.storage)))


def _reciprocal_roots(squares: Array) -> tuple[Array, Array]:
    """Return ``1 / sqrt(squares)`` as 31-bit fractions and right shifts; 0 counts as 1."""
    quarters = np.maximum(bit_lengths(squares) - _MOST_BITS + 1, 0) // 2
    scaled = np.maximum(squares >> (2 * quarters), 2)
    fourfolds = (_MOST_BITS - bit_lengths(scaled)) // 2
    half = ((scaled << (2 * fourfolds) >> 1) + 1) >> 1
    root = np.full_like(scaled, _ONE_F3)
    for _ in range(_REFINEMENTS):
        cube = shift_left(high_product(high_product(root, root), root), 6)
        root = shift_left(high_product(root, _THREE_HALVES_F3) - high_product(half, cube), 3)
    shifts = _ROOT_BITS + quarters - fourfolds
    fractions = high_product(root, _HALF_ROOT_OF_2) << np.maximum(-shifts, 0)
    tiny = squares <= 1
    return np.where(tiny, _INT32_MAX, fractions), np.where(tiny, 0, np.maximum(shifts, 0))
