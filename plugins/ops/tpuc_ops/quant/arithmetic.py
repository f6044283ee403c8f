"""Rounding, requantization, multiplier/shift decompositions, and scales; they are defined only here."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Int64Array = NDArray[np.int64]
Array = NDArray[Any]
Decomposition = tuple[int, int]

BLOCK_ELEMENTS = 1 << 15  # two int64 buffers of this size stay in a 512 KB level-2 cache
HEADROOM = 1 << 62  # below this, adding any rounding offset of a shift <= 62 cannot overflow int64
INT64_MAX = (1 << 63) - 1
INT64_MIN = -(1 << 63)


class Rounding(enum.Enum):
    """Rounding modes; the values are TPU-MLIR's attribute text."""

    HALF_AWAY_FROM_ZERO = "HalfAwayFromZero"
    HALF_UP = "HalfUp"
    HALF_DOWN = "HalfDown"
    HALF_TO_EVEN = "HalfToEven"
    HALF_TO_ODD = "HalfToOdd"
    HALF_TOWARDS_ZERO = "HalfTowardsZero"
    TOWARDS_ZERO = "TowardsZero"
    UP = "Up"
    DOWN = "Down"


# Integers.


def shift_right(x: ArrayLike, shift: ArrayLike, rounding: Rounding) -> Int64Array:
    """Exact ``x / 2**shift``, rounded; a negative shift multiplies and saturates to int64."""
    values = np.asarray(x, np.int64)
    shifts = np.asarray(shift, np.int64)
    shape = np.broadcast_shapes(values.shape, shifts.shape)
    work = np.array(np.broadcast_to(values, shape), np.int64, order="C", ndmin=1)
    if work.size:
        _shift_in_place(work, shifts, rounding, _magnitude(work) <= HEADROOM)
    return work.reshape(shape)


def integer_limits(dtype: DTypeLike) -> tuple[int, int]:
    """Return the lowest and highest value of an integer type."""
    limits = np.iinfo(str(np.dtype(dtype)))
    return int(limits.min), int(limits.max)


def saturate(x: ArrayLike, dtype: DTypeLike) -> Array:
    """Clip to the range of the integer type `dtype` and convert; floats must already be integral."""
    return _clip(np.asarray(x), *integer_limits(dtype)).astype(dtype)


def requantize(
    acc: ArrayLike, multiplier: ArrayLike, shift: ArrayLike, zero_point: ArrayLike, rounding: Rounding, dtype: DTypeLike
) -> Array:
    """``saturate(round(acc * multiplier / 2**shift) + zero_point)``: one rounding, on the full 64-bit product.

    Parameters broadcast against `acc`. Raises OverflowError if a product may exceed 64 bits; 32-bit operands cannot.
    """
    values, product_limit = _product_limit(acc, multiplier)
    if product_limit > INT64_MAX:
        raise OverflowError(f"requantize: accumulator times multiplier may reach {product_limit}, beyond 64 bits")

    def scale(work: Int64Array, factor: Int64Array, shifts: Int64Array) -> None:
        np.multiply(work, factor, out=work)
        _shift_in_place(work, shifts, rounding, product_limit <= HEADROOM)

    return _requantize_blocks(values, multiplier, shift, zero_point, dtype, scale)


def requantize_qdm(
    acc: ArrayLike, multiplier: ArrayLike, shift: ArrayLike, zero_point: ArrayLike, rounding: Rounding, dtype: DTypeLike
) -> Array:
    """Quantized down multiply (TFLite): ``acc * multiplier / 2**(31 + shift)`` in two roundings.

    A negative `shift` first shifts the accumulator left. The product is divided by ``2**31`` half up and saturated to
    int32; a positive `shift` then divides with `rounding`. The magnitude of `multiplier` is at most ``2**31 - 1``;
    raises OverflowError beyond it.
    """
    factors = np.asarray(multiplier, np.int64)
    if factors.size and _magnitude(factors) > np.iinfo(np.int32).max:
        raise OverflowError("requantize_qdm: a multiplier does not fit 32 bits")

    def scale(work: Int64Array, factor: Int64Array, shifts: Int64Array) -> None:
        if int(shifts.min()) < 0:
            _shift_left_in_place(work, np.maximum(-shifts, 0))
        # Beyond this bound the product saturates int32 anyway; inside it the product fits 64 bits.
        bound = HEADROOM // np.maximum(np.abs(factor), 1) + 1
        np.clip(work, -bound, bound, out=work)
        np.multiply(work, factor, out=work)
        np.add(work, 1 << 30, out=work)
        np.right_shift(work, 31, out=work)
        _clip_in_place(work, -(1 << 31), (1 << 31) - 1)
        _shift_in_place(work, np.maximum(shifts, 0), rounding, True)

    return _requantize_blocks(np.asarray(acc), factors, shift, zero_point, dtype, scale)


def _requantize_blocks(
    acc: Array,
    multiplier: ArrayLike,
    shift: ArrayLike,
    zero_point: ArrayLike,
    dtype: DTypeLike,
    scale: Callable[[Int64Array, Int64Array, Int64Array], None],
) -> Array:
    """Run `scale` in place over cache-sized blocks of `acc`, then add the zero point and saturate."""
    parameters = [np.asarray(p, np.int64) for p in (multiplier, shift, zero_point)]
    if all(p.size == 1 for p in parameters):
        flat, parameters = acc.reshape(-1), [p.reshape(1) for p in parameters]
    else:
        flat = acc
        parameters = [p.reshape((1,) * (acc.ndim - p.ndim) + p.shape) for p in parameters]
    result: Array = np.empty(flat.shape, dtype)
    low, high = integer_limits(result.dtype)
    for block in _blocks(flat.shape):
        factor, shifts, offset = (_slice_of(p, block) for p in parameters)
        work = flat[block].astype(np.int64)
        scale(work, factor, shifts)
        if offset.any():
            # Values are clipped first so that the zero point cannot overflow.
            _clip_in_place(work, -HEADROOM, HEADROOM)
            np.add(work, offset, out=work)
        _clip_in_place(work, low, high)
        result[block] = work
    return result.reshape(acc.shape)


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Cover `shape` with index tuples of about `BLOCK_ELEMENTS` elements, whole inner axes first."""
    if 0 in shape:
        return
    axis, inner = len(shape), 1
    while axis > 0 and inner * shape[axis - 1] <= BLOCK_ELEMENTS:
        axis -= 1
        inner *= shape[axis]
    if axis == 0:
        yield (slice(None),) * len(shape)
        return
    step = max(1, BLOCK_ELEMENTS // inner)
    for outer in np.ndindex(*shape[: axis - 1]):
        for start in range(0, shape[axis - 1], step):
            yield (*(slice(i, i + 1) for i in outer), slice(start, start + step), *(slice(None),) * (len(shape) - axis))


def _slice_of(parameter: Int64Array, block: tuple[slice, ...]) -> Int64Array:
    """Return the part of a broadcast parameter that belongs to one block."""
    return parameter[tuple(b if n > 1 else slice(None) for n, b in zip(parameter.shape, block, strict=True))]


def _shift_in_place(work: Int64Array, shifts: Int64Array, rounding: Rounding, has_headroom: bool) -> None:
    """Divide by ``2**shifts`` with rounding; `has_headroom` asserts ``abs(work) <= 2**62``."""
    lowest, highest = int(shifts.min()), int(shifts.max())
    if lowest < 0:
        _shift_left_in_place(work, np.maximum(-shifts, 0))
        shifts = np.maximum(shifts, 0)
        has_headroom = False
    if highest <= 0:
        return
    if has_headroom and highest <= 62:
        _round_shift(work, shifts, rounding, lowest <= 0)
    else:
        _round_shift_any(work, shifts, rounding)


def _round_shift(work: Int64Array, shifts: Int64Array, rounding: Rounding, some_are_zero: bool) -> None:
    """Add the offset that turns the flooring shift into the requested rounding, then shift."""
    half = np.left_shift(1, shifts) >> 1
    match rounding:
        case Rounding.HALF_UP:
            work += half
        case Rounding.HALF_DOWN:
            work += np.maximum(half - 1, 0)
        case Rounding.HALF_AWAY_FROM_ZERO | Rounding.HALF_TOWARDS_ZERO:
            negative = work >> 63  # -1 or 0
            if rounding is Rounding.HALF_TOWARDS_ZERO:
                np.invert(negative, out=negative)
            if some_are_zero:
                negative *= shifts > 0
            work += half
            work += negative
        case Rounding.HALF_TO_EVEN | Rounding.HALF_TO_ODD:
            odd = work >> shifts
            if rounding is Rounding.HALF_TO_ODD:
                np.invert(odd, out=odd)
            odd &= 1
            if some_are_zero:
                odd *= shifts > 0
            work += odd
            work += np.maximum(half - 1, 0)
        case Rounding.TOWARDS_ZERO:
            work += (work >> 63) & (np.left_shift(1, shifts) - 1)
        case Rounding.UP:
            work += np.left_shift(1, shifts) - 1
        case Rounding.DOWN:
            pass
    work >>= shifts


def _round_shift_any(work: Int64Array, shifts: Int64Array, rounding: Rounding) -> None:
    """As `_round_shift` without its limits: split off an even multiple of ``2**shift``, round the remainder."""
    excess = np.clip(shifts - 60, 0, 63)
    shifts = np.minimum(shifts, 60)
    # Bits far below the rounding position only matter as "something is there": keep them as one sticky bit.
    kept = work >> excess
    sticky = (kept << excess) != work
    np.bitwise_or(kept, sticky, out=work)
    even = ((work >> shifts) & ~1) + 2 * (work < 0)  # remainder keeps the sign, and the parity of the floor
    work -= even << shifts
    _round_shift(work, shifts, rounding, True)
    work += even


def _shift_left_in_place(work: Int64Array, shifts: Int64Array) -> None:
    """``work * 2**shifts``, saturated to int64."""
    limit = np.right_shift(INT64_MAX, np.minimum(shifts, 63))
    too_high, too_low = work > limit, work < ~limit
    work <<= np.minimum(shifts, 63)
    work[too_high] = INT64_MAX
    work[too_low] = INT64_MIN


def _product_limit(acc: ArrayLike, multiplier: ArrayLike) -> tuple[Array, int]:
    """Return `acc` as an array and an upper bound of ``abs(acc * multiplier)``, from the type alone if it is narrow."""
    values, factors = np.asarray(acc), np.asarray(multiplier, np.int64)
    if not values.size or not factors.size:
        return values, 0
    limits = np.iinfo(values.dtype)
    acc_limit = -int(limits.min) if limits.bits <= 32 and limits.min < 0 else _magnitude(values)
    return values, acc_limit * _magnitude(factors)


def _magnitude(values: Array) -> int:
    """Return the largest absolute value, as a Python integer because that of the lowest int64 does not fit int64."""
    return max(-int(values.min()), int(values.max()))


def _clip(values: Array, low: int, high: int) -> Array:
    """Clip; the bounds may lie outside the array's type."""
    if values.dtype.kind in "iu":
        own = np.iinfo(values.dtype)
        return np.clip(values, max(low, int(own.min)), min(high, int(own.max)))
    return np.clip(values, low, high)


def _clip_in_place(work: Int64Array, low: int, high: int) -> None:
    np.minimum(work, high, out=work)
    np.maximum(work, low, out=work)


# Floats.


def round_to_int(x: ArrayLike, rounding: Rounding) -> Int64Array:
    """Round to int64 by `rounding`, exact for every float; infinities saturate, and NaN becomes 0 on every CPU."""
    shape = np.shape(x)
    values = _as_float(x).reshape(shape or (1,))
    with np.errstate(invalid="ignore"):
        if rounding is Rounding.HALF_TO_EVEN:
            return _float_to_int(np.rint(values)).reshape(shape)
        truncated = np.trunc(values)
        fraction = values - truncated  # exact: the fraction bits of the value itself
        whole = _float_to_int(truncated)
        up, down = _round_up(fraction, whole, rounding), _round_down(fraction, whole, rounding)
    whole += up
    whole -= down
    return whole.reshape(shape)


def round_quotients(rows: Array, divisors: Array, rounding: Rounding, dtype: DTypeLike) -> Array:
    """``saturate(round(rows / divisors))`` of `[rows, n]` by `[rows]`, in float64, in blocks that stay in the cache."""
    result = np.empty(rows.shape, dtype)
    step = max(BLOCK_ELEMENTS // max(rows.shape[1], 1), 1)
    for start in range(0, rows.shape[0], step):
        quotients = rows[start : start + step] / divisors[start : start + step, None]
        result[start : start + step] = saturate(round_to_int(quotients, rounding), dtype)
    return result


def largest_magnitudes(rows: Array) -> Array:
    """Return the largest magnitude of each row of `[rows, n]`, in float64; 0 for empty rows."""
    highest, lowest = rows.max(axis=1, initial=0.0), rows.min(axis=1, initial=0.0)
    return np.maximum(highest, -lowest).astype(np.float64)


def _round_up(fraction: Array, whole: Int64Array, rounding: Rounding) -> Array:
    """Mask of the elements whose fraction in (-1, 1) rounds the truncated value up by one."""
    match rounding:
        case Rounding.HALF_UP | Rounding.HALF_AWAY_FROM_ZERO:
            return fraction >= 0.5
        case Rounding.HALF_DOWN | Rounding.HALF_TOWARDS_ZERO:
            return fraction > 0.5
        case Rounding.HALF_TO_ODD:
            return (fraction > 0.5) | ((fraction == 0.5) & (whole & 1 == 0))
        case Rounding.UP:
            return fraction > 0
        case _:
            return np.zeros((), np.bool_)


def _round_down(fraction: Array, whole: Int64Array, rounding: Rounding) -> Array:
    """Mask of the elements whose fraction in (-1, 1) rounds the truncated value down by one."""
    match rounding:
        case Rounding.HALF_UP | Rounding.HALF_TOWARDS_ZERO:
            return fraction < -0.5
        case Rounding.HALF_DOWN | Rounding.HALF_AWAY_FROM_ZERO:
            return fraction <= -0.5
        case Rounding.HALF_TO_ODD:
            return (fraction < -0.5) | ((fraction == -0.5) & (whole & 1 == 0))
        case Rounding.DOWN:
            return fraction < 0
        case _:
            return np.zeros((), np.bool_)


def _as_float(x: ArrayLike) -> Array:
    """Widen to at least float32, because numpy lacks some operations for narrow types; widening is exact."""
    values = np.asarray(x)
    if values.dtype == np.float32 or values.dtype == np.float64:
        return values
    wide = np.float32 if values.dtype.itemsize < 4 and values.dtype.kind not in "iu" else np.float64
    return values.astype(wide)


def _float_to_int(whole: Array) -> Int64Array:
    """Convert integral floats to int64 with saturation; NaN becomes 0."""
    result = whole.astype(np.int64)
    beyond = ~(np.abs(whole) < 2.0**63)
    if beyond.any():
        result[beyond] = np.where(whole[beyond] > 0, INT64_MAX, INT64_MIN)
        result[np.isnan(whole)] = 0
    return result


def quantize_float(
    x: ArrayLike, scale: ArrayLike, zero_point: ArrayLike, rounding: Rounding, dtype: DTypeLike
) -> Array:
    """``saturate(round(x / scale + zero_point))``: float64 quotient, exact sum, at most 32 bits; NaN counts as 0."""
    quotient = np.asarray(x, np.float64) / np.asarray(scale, np.float64)
    return _round_with_offset(quotient, np.asarray(zero_point, np.int64), rounding, dtype)


def quantize_product(
    x: ArrayLike, factor: ArrayLike, zero_point: ArrayLike, rounding: Rounding, dtype: DTypeLike
) -> Array:
    """``saturate(round(x * factor + zero_point))`` with a float32 product, as on chips with ``factor = 1 / scale``."""
    product = np.asarray(x, np.float32) * np.asarray(factor, np.float32)
    return _round_with_offset(product, np.asarray(zero_point, np.int64), rounding, dtype)


def _round_with_offset(values: Array, offset: Int64Array, rounding: Rounding, dtype: DTypeLike) -> Array:
    """Saturate ``round(values + offset)`` without rounding the sum itself."""
    low, high = integer_limits(dtype)
    # One beyond the limits on both sides: nothing inside moves, and the sum below cannot overflow.
    bounded = np.clip(values.astype(np.float64), low - offset - 1.0, high - offset + 1.0)
    odd = (offset & 1) == 1
    match rounding:
        case Rounding.HALF_TO_EVEN if odd.any():
            whole = _choose(odd, bounded, Rounding.HALF_TO_ODD, Rounding.HALF_TO_EVEN)
        case Rounding.HALF_TO_ODD if odd.any():
            whole = _choose(odd, bounded, Rounding.HALF_TO_EVEN, Rounding.HALF_TO_ODD)
        case Rounding.HALF_AWAY_FROM_ZERO if offset.any():
            whole = _choose(bounded > -offset, bounded, Rounding.HALF_UP, Rounding.HALF_DOWN)
        case Rounding.HALF_TOWARDS_ZERO if offset.any():
            whole = _choose(bounded > -offset, bounded, Rounding.HALF_DOWN, Rounding.HALF_UP)
        case Rounding.TOWARDS_ZERO if offset.any():
            whole = _choose(bounded > -offset, bounded, Rounding.DOWN, Rounding.UP)
        case _:
            whole = round_to_int(bounded, rounding)
    return saturate(whole + offset, dtype)


def _choose(where: Array, values: Array, true: Rounding, false: Rounding) -> Int64Array:
    return np.where(where, round_to_int(values, true), round_to_int(values, false))


def dequantize(q: ArrayLike, scale: ArrayLike, zero_point: ArrayLike) -> NDArray[np.float32]:
    """``(q - zero_point) * scale``, one rounding to float32."""
    centered = np.asarray(q, np.int64) - np.asarray(zero_point, np.int64)
    return (centered * np.asarray(scale, np.float64)).astype(np.float32)


# A factor as multiplier and shift: ``factor ~ multiplier / 2**shift``.


def decompose_frexp31(value: float) -> Decomposition:
    """Decompose into 31 significant bits: ``2**30 <= abs(multiplier) < 2**31`` and any shift; 0 gives (0, 0)."""
    mantissa, exponent = math.frexp(_finite(value))
    multiplier = _round_half_away(math.ldexp(mantissa, 31))
    if abs(multiplier) == 1 << 31:
        multiplier, exponent = multiplier // 2, exponent + 1
    return (multiplier, 31 - exponent) if multiplier else (0, 0)


def decompose_search(value: float, bits: int = 32, lowest_shift: int = -32, highest_shift: int = 30) -> Decomposition:
    """Return the lowest shift with the smallest error, with ``abs(multiplier) < 2**(bits - 1) - 1``.

    The rule of bm1684x; `lowest_shift` is 0 if the chip cannot shift left. Factors that round to 0 give (0, 0). Raises
    ValueError for factors that are too large.
    """
    limit = (1 << (bits - 1)) - 1
    best: Decomposition | None = None
    best_error = math.inf
    for shift in range(lowest_shift, highest_shift + 1):
        multiplier = _round_half_away(math.ldexp(_finite(value), shift))
        error = abs(math.ldexp(multiplier, -shift) - value)
        if abs(multiplier) >= limit:
            break
        if error < best_error:
            best, best_error = (multiplier, shift), error
    if best is None:
        raise ValueError(f"factor {value:g} needs a multiplier of more than {bits} bits at shift {lowest_shift}")
    return best if best[0] else (0, 0)


def decompose_shift_to_max(value: float, limit: int = 127, highest_shift: int = 62) -> Decomposition:
    """Return the largest shift that keeps the multiplier, which is truncated, below `limit` (the rule of cv18xx).

    Factors above `limit` become (limit, 0); factors too small for `highest_shift` become (0, 0).
    """
    if abs(_finite(value)) > limit:
        return (limit if value > 0 else -limit, 0)
    for shift in range(highest_shift + 1):
        if abs(math.ldexp(value, shift + 1)) >= limit:
            return (math.trunc(math.ldexp(value, shift)), shift)
    return (0, 0)


def decompose_each(
    values: ArrayLike, decompose: Callable[[float], Decomposition] = decompose_frexp31
) -> tuple[Int64Array, Int64Array]:
    """Decompose an array of factors into arrays of multipliers and shifts of the same shape."""
    factors = np.asarray(values, np.float64)
    pairs = np.array([decompose(float(f)) for f in factors.reshape(-1)], np.int64).reshape(-1, 2)
    return pairs[:, 0].reshape(factors.shape), pairs[:, 1].reshape(factors.shape)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"a quantization factor must be finite, this one is {value}")
    return value


def _round_half_away(value: float) -> int:
    """Round exactly: the fraction of a float is itself a float."""
    fraction, whole = math.modf(value)
    return int(whole) + (fraction >= 0.5) - (fraction <= -0.5)


# Scales.

SMALLEST_SCALE = 2.0**-126
"""The smallest normal float32: scales are stored as float32 and lose digits below it."""
_SCALE_OF_ZEROS = 1e-5 / 127
"""Scale of values that are all 0, for which any scale is exact."""


def usable_threshold(threshold: float) -> float:
    """Return a threshold with a representable scale; 1e-5 if all values are 0."""
    return max(threshold, 255 * SMALLEST_SCALE) if threshold > 0 else 127 * _SCALE_OF_ZEROS


def usable_scales(scales: Array) -> Array:
    """Return representable scales of filters, one per channel; see `usable_threshold`."""
    return np.where(scales > 0, np.maximum(scales, SMALLEST_SCALE), _SCALE_OF_ZEROS)


def symmetric_scale(threshold: float, signed: bool, divisor: int = 128, bits: int = 8) -> float:
    """Return the step of a symmetric type: ``threshold / divisor`` if signed, ``threshold / (2**bits - 1)`` if not.

    `divisor` is that of 8 bits (128 or 127); other widths keep its distance to the power of two.
    """
    if not signed:
        return threshold / ((1 << bits) - 1)
    return threshold / ((1 << (bits - 1)) + divisor - 128)


def asymmetric_scale(minimum: float, maximum: float, signed: bool = True, bits: int = 8) -> tuple[float, int]:
    """Return scale and zero point of ``[minimum, maximum]``, widened to contain zero; an empty range gives (1, 0)."""
    low, high = min(minimum, 0.0), max(maximum, 0.0)
    if _finite(high - low) == 0.0:
        return 1.0, 0
    lowest = -(1 << (bits - 1)) if signed else 0
    scale = (high - low) / ((1 << bits) - 1)
    return scale, _round_half_away(-low / scale + lowest)
