"""The integer arithmetic of TFLite's kernels, on arrays.

Scales are float32; which of their products are rounded to float32 is part of the arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from tpuc.api import ScalarType, Uniform, UniformPerAxis, numpy_dtype

from tpuc_ops import elementary
from tpuc_ops.quant.arithmetic import (
    Array,
    Decomposition,
    Rounding,
    decompose_each,
    decompose_frexp31,
    integer_limits,
    quantize_float,
    requantize,
    requantize_qdm,
    shift_right,
)

Bounds = tuple[int, int]
"""Lowest and highest stored integer of a result: those of its type, or narrower ones of an activation."""

SUM_SHIFT = 20
"""Bits by which 8-bit operands of a sum are shifted left before they are rescaled to a common scale."""

WIDE_SUM_SHIFT = 15
"""The same for 16-bit operands."""

DIFFERENCE_SHIFT = 7
"""The same for 8-bit operands whose difference is stored in 16 bits and squared: a square then has at most 30 bits."""


def multiplier_of(factor: float) -> Decomposition:
    """Decompose into 31 significant bits; factors that need more than 31 further fractional bits count as 0."""
    multiplier, shift = decompose_frexp31(factor)
    return (0, 0) if shift - 31 > 31 else (multiplier, shift)


def scaled(acc: ArrayLike, factor: ArrayLike) -> Array:
    """int32 ``acc * factor``: a high product rounded half up, then a shift rounded half away from zero.

    `factor` broadcasts against `acc`.
    """
    multipliers, shifts = decompose_each(factor, multiplier_of)
    return requantize_qdm(acc, multipliers, shifts - 31, 0, Rounding.HALF_AWAY_FROM_ZERO, np.int32)


def bounded(x: Array, type: Uniform, bounds: Bounds) -> Array:
    """Add the zero point to integers, clip to the bounds, and convert to the storage of `type`."""
    return np.clip(x.astype(np.int64) + type.zero_point, *bounds).astype(numpy_dtype(type.storage))


def centered(x: Array, type: Uniform) -> Array:
    """Subtract the zero point; returns int64."""
    return x.astype(np.int64) - type.zero_point


def product_sums(
    acc: Array, x: Uniform, weight: Uniform | UniformPerAxis, y: Uniform, shape: tuple[int, ...], bounds: Bounds
) -> Array:
    """Requantize sums of products; `shape` makes factors per channel broadcast against the sums.

    The factor is a float32, as are the sums and their product, which is rounded half to even: this is the runtime's
    default. TFLite's reference kernels round an integer product, once in FULLY_CONNECTED and twice in convolutions, and
    may differ by 1. 16-bit values use only the latter: 15-bit multipliers, rounded once.
    """
    scales = np.asarray(weight.scales if isinstance(weight, UniformPerAxis) else (weight.scale,), np.float32)
    if y.storage.bits > 8:
        multipliers, shifts = decompose_each(
            scales.astype(np.float64) * x.scale / y.scale, lambda factor: _reduced(multiplier_of(factor))
        )
        sums = requantize(acc, multipliers.reshape(shape), shifts.reshape(shape), 0, Rounding.HALF_UP, np.int32)
        return bounded(sums, y, bounds)
    factors = np.float32(x.scale) * scales / np.float32(y.scale)
    return bounded(np.rint(acc.astype(np.float32) * factors.reshape(shape)), y, bounds)


def _reduced(decomposition: Decomposition) -> Decomposition:
    """Round a 31-bit multiplier to 15 bits."""
    multiplier, shift = decomposition
    return (min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1), shift - 16) if multiplier else (0, 0)


def rescale(x: Array, source: Uniform, target: Uniform, bounds: Bounds) -> Array:
    """Requantize integers to another scale."""
    return bounded(scaled(centered(x, source), source.scale / target.scale), target, bounds)


def add(operands: Sequence[Array], types: Sequence[Uniform], signs: Sequence[int], y: Uniform, bounds: Bounds) -> Array:
    """Add two operands: shift each left, rescale to twice the larger scale, add, and requantize the sum."""
    shift = SUM_SHIFT if y.storage.bits == 8 else WIDE_SUM_SHIFT
    if y.storage.bits > max(type.storage.bits for type in types):
        shift = DIFFERENCE_SHIFT
    common = 2.0 * max(type.scale for type in types)
    total: Array = np.zeros((), np.int64)
    for x, type, sign in zip(operands, types, signs, strict=True):
        total = total + sign * scaled(centered(x, type) << shift, type.scale / common).astype(np.int64)
    return bounded(scaled(total, common / ((1 << shift) * y.scale)), y, bounds)


def multiply(left: Array, right: Array, types: Sequence[Uniform], y: Uniform, bounds: Bounds) -> Array:
    """Requantize the exact product; the factor is a float32."""
    factor = np.float32(types[0].scale) * np.float32(types[1].scale) / np.float32(y.scale)
    return bounded(scaled(centered(left, types[0]) * centered(right, types[1]), float(factor)), y, bounds)


def square(x: Array, source: Uniform, y: Uniform, bounds: Bounds) -> Array:
    """Requantize the exact square; the factor is a double, unlike that of a product."""
    return bounded(scaled(np.square(centered(x, source)), source.scale**2 / y.scale), y, bounds)


def wide_difference(left: Uniform, right: Uniform) -> Uniform:
    """Return the type of a difference of 8-bit values before SQUARED_DIFFERENCE squares it: `add` then rescales by
    1.
    """
    scale = 2.0 * max(left.scale, right.scale) / (1 << DIFFERENCE_SHIFT)
    return Uniform(ScalarType("i16"), left.expressed, scale)


def mean_under_windows(sums: Array, counts: Array) -> Array:
    """Return the quotients, rounded half away from zero."""
    total, count = sums.astype(np.int64), counts.astype(np.int64)
    magnitude = (np.abs(total) + count // 2) // count
    return np.where(total > 0, magnitude, -magnitude)


def reduce_mean(x: Array, axes: tuple[int, ...], source: Uniform, y: Uniform, bounds: Bounds) -> Array:
    """Requantize sums; the multiplier is divided by the number of summands. Dimensions are kept."""
    count = math.prod(x.shape[axis] for axis in axes)
    multiplier, shift = multiplier_of(source.scale / y.scale)
    right = shift - 31
    places = min(count.bit_length() - 1, 32, 31 - right)
    multiplier = (multiplier << places) // count
    acc = x.sum(axes, np.int64, keepdims=True) - count * source.zero_point
    return bounded(
        requantize_qdm(acc, multiplier, right + places, 0, Rounding.HALF_AWAY_FROM_ZERO, np.int32), y, bounds
    )


def reduce_sum(x: Array, axes: tuple[int, ...], source: Uniform, y: Uniform, bounds: Bounds) -> Array:
    """Requantize sums. Dimensions are kept."""
    count = math.prod(x.shape[axis] for axis in axes)
    acc = x.sum(axes, np.int64, keepdims=True) - count * source.zero_point
    return bounded(scaled(acc, source.scale / y.scale), y, bounds)


def slopes(x: Array, source: Uniform, y: Uniform, slope: Array, factor: float, bounds: Bounds) -> Array:
    """Requantize nonnegative values by the ratio of scales, and negative ones times `slope` by `factor`.

    This is LEAKY_RELU with `slope` 1, and PRELU.
    """
    center = centered(x, source)
    above, below = scaled(center, source.scale / y.scale), scaled(center * slope, factor)
    return bounded(np.where(center >= 0, above, below), y, bounds)


def softmax(x: Array, axis: int, source: Uniform, y: Uniform, beta: float) -> Array:
    """Exponentials from a float32 table indexed by the distance to the maximum, normalized in float32 and rounded."""
    x = np.moveaxis(x, axis, -1).astype(np.int64)
    step = -np.float32(np.float32(source.scale) * np.float32(beta))
    table = elementary.exp((step * np.arange(256, dtype=np.float32)).astype(np.float64)).astype(np.float32)
    exponentials = table[x.max(-1, keepdims=True) - x]
    # The runtime adds one after the other; numpy's cumulative sum does too.
    sums = np.cumsum(exponentials, -1, dtype=np.float32)[..., -1:]
    normalized = exponentials * (np.float32(1) / (sums * np.float32(y.scale)))
    whole = np.floor(normalized + np.float32(0.5)).astype(np.int64)
    dtype = numpy_dtype(y.storage)
    return np.moveaxis(np.clip(whole + y.zero_point, *integer_limits(dtype)).astype(dtype), -1, axis)


def log_softmax(x: Array, axis: int, source: Uniform, y: Uniform, beta: float) -> Array:
    """The distance to the maximum minus the logarithm of the sum of exponentials, in float32, rounded half to even."""
    x = np.moveaxis(x, axis, -1).astype(np.int64)
    scale, result_scale = np.float32(source.scale), np.float32(y.scale)
    step = -np.float32(scale * np.float32(beta))
    table = elementary.exp((step * np.arange(256, dtype=np.float32)).astype(np.float64)).astype(np.float32)
    largest = x.max(-1, keepdims=True)
    sums = np.cumsum(table[largest - x], -1, dtype=np.float32)[..., -1:]
    offset = (scale * largest.astype(np.float32) + elementary.log(sums)) / result_scale
    whole = np.rint(scale / result_scale * x.astype(np.float32) - offset).astype(np.int64)
    dtype = numpy_dtype(y.storage)
    return np.moveaxis(np.clip(whole + y.zero_point, *integer_limits(dtype)).astype(dtype), -1, axis)


def hard_swish(x: Array, source: Uniform, y: Uniform) -> Array:
    """``x * clip(x / 6 + 1 / 2, 0, 1)`` in 16-bit products."""
    fine = centered(x, source) << 7
    fine_scale = np.float32(source.scale) / np.float32(128)
    multiplier, exponent = _multiplier16(float(fine_scale / np.float32(y.scale)))
    outer = _high_product(fine, multiplier)
    multiplier, inner_exponent = _multiplier16(float(fine_scale / np.float32(3 / 32768)))
    inner = _clip16(fine << max(inner_exponent - 1, 0))
    inner = _high_product(inner, multiplier)
    inner = _clip16(inner << 1) if inner_exponent > 0 else inner
    inner = shift_right(inner, max(-inner_exponent, 0), Rounding.HALF_AWAY_FROM_ZERO)
    product = ((inner + (1 << 15)) >> 1) * outer
    cut = np.where(product < 0, -(-product >> 15), product >> 15)
    result = shift_right(_clip16(cut), max(-exponent, 0), Rounding.HALF_AWAY_FROM_ZERO)
    return bounded(result, y, integer_limits(numpy_dtype(y.storage)))


def _multiplier16(factor: float) -> Decomposition:
    """Decompose into 15 significant bits and a power of two to multiply with."""
    multiplier, shift = multiplier_of(factor)
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1), 31 - shift if multiplier else 0


def _high_product(x: Array, multiplier: int) -> Array:
    """``x * multiplier / 2**15``, rounded half up."""
    return _clip16((x * multiplier + (1 << 14)) >> 15)


def _clip16(x: Array) -> Array:
    return np.clip(x, -(1 << 15), (1 << 15) - 1)


def by_table(
    x: Array,
    source: Uniform,
    y: Uniform,
    function: Callable[[Array], Array],
    rounding: Rounding = Rounding.HALF_AWAY_FROM_ZERO,
) -> Array:
    """Apply a unary function in float32 to each of the 256 integers, and look the elements up."""
    low, high = integer_limits(x.dtype)
    every = np.arange(low, high + 1)
    values = np.float32(source.scale) * (every - source.zero_point).astype(np.float32)
    with np.errstate(all="ignore"):
        results = function(values).astype(np.float32) * (np.float32(1) / np.float32(y.scale))
    results = np.where(np.isnan(results), -np.inf, results)  # outside the function's domain: the lowest integer
    table = quantize_float(results, 1.0, y.zero_point, rounding, numpy_dtype(y.storage))
    return table[x.astype(np.int64) - low]


def resize_linear(x: Array, axis_sizes: tuple[int, int], coordinates: str) -> Array:
    """Interpolate rows and columns of `x: [n, c, h, w]` in steps of 1/1024, rounded half away from zero."""
    lower, upper, share = _places(x.shape[2], axis_sizes[0], coordinates)
    wide = x.astype(np.int64)
    rows = wide[:, :, lower] * (1024 - share)[:, None] + wide[:, :, upper] * share[:, None]
    lower, upper, share = _places(x.shape[3], axis_sizes[1], coordinates)
    total = rows[..., lower] * (1024 - share) + rows[..., upper] * share
    magnitude = (np.abs(total) + (1 << 19)) >> 20
    return np.where(total > 0, magnitude, -magnitude).astype(x.dtype)


def resize_linear_bytes(values: Array) -> Array:
    """Round unsigned bytes that were interpolated as floats, half up."""
    return np.clip(np.floor(values + np.float32(0.5)), 0, 255).astype(np.uint8)


def _places(extent: int, count: int, coordinates: str) -> tuple[Array, Array, Array]:
    """Return the two neighbors of each result element, and its distance from the first in 1/1024."""
    if coordinates == "align_corners" and count > 1:
        scale = (1024 * (extent - 1) + (count - 1) // 2) // (count - 1)
    else:
        scale = (1024 * extent + count // 2) // count
    place = np.arange(count, dtype=np.int64) * scale
    if coordinates == "half_pixel":
        place = place + scale // 2 - 512
    truncated = np.abs(place) // 1024 * np.sign(place)
    lower = np.maximum(truncated, 0)
    ahead = place + 1023
    upper = np.minimum(np.abs(ahead) // 1024 * np.sign(ahead), extent - 1)
    lower = np.minimum(lower, extent - 1)
    return lower, upper, place - 1024 * lower
