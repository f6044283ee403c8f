"""Bit-exact numpy semantics of elementwise operations."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from tpuc.api import IllegalCommand
from tpuc_ops.quant.arithmetic import Rounding, round_to_int, saturate, shift_right

from tpuc_bm1684x.isa.types import Array, DType

MUL, NOT, ADD, SUB, MAX, MIN, AND, OR, XOR = 0, 1, 2, 3, 4, 5, 7, 8, 9
SELECT_GREATER, SELECT_EQUAL, DIV, SELECT_LESS = 10, 11, 12, 13
COPY, ABS, ABS_DIFFERENCE, LEADING_ZEROS, LEADING_ONES = 19, 26, 27, 29, 30
_KIND = {0: MUL, 2: ADD, 3: SUB, 15: ADD, 16: SUB, 20: MUL}
LOGICAL_SHIFT, ARITHMETIC_SHIFT, CIRCULAR_SHIFT = 6, 21, 22


def wrap(values: Array, dtype: DType) -> Array:
    """The low bits of int64 values, as `dtype`."""
    return values.astype(np.int64, copy=False).astype(dtype.numpy)


def combine(op: int, left: Array, right: Array, result: DType, shift: Array | None, rounding: Rounding) -> Array:
    """Sum, difference or product; operation codes from 15 up saturate."""
    kind = _KIND[op]
    if result.is_float:
        return _float_combine(kind, left, right, result)
    if shift is None and op < 15 and left.dtype == right.dtype == result.numpy:
        return _raw(kind, left, right)  # wraps as numpy does
    wide: Any = np.int64 if max(left.dtype.itemsize, right.dtype.itemsize) > 2 or shift is not None else np.int32
    value = _raw(kind, left.astype(wide), right.astype(wide))
    if shift is not None:
        value = shift_right(value, -shift.astype(np.int64), rounding)
    return saturate(value, result.numpy) if op >= 15 else value.astype(result.numpy)


def _raw(kind: int, left: Array, right: Array) -> Array:
    with np.errstate(all="ignore"):
        return left + right if kind == ADD else left - right if kind == SUB else left * right


def _float_combine(kind: int, left: Array, right: Array, result: DType) -> Array:
    with np.errstate(all="ignore"):
        value = _raw(kind, flush(left).astype(np.float32, copy=False), flush(right).astype(np.float32, copy=False))
        return canonical(flush(value).astype(result.numpy, copy=False))


def cast(values: Array, result: DType, rounding: Rounding) -> Array:
    """Convert a type: to narrower floats and to integers with `rounding`, to integers saturating. A float of the
    result's own type is rounded to a whole number.
    """
    source_float = values.dtype.kind not in "iu"
    with np.errstate(all="ignore"):
        if result.is_float:
            if not source_float and values.dtype.itemsize == 4:
                return _int_to_float(values.astype(np.int64), result, rounding)
            if source_float and values.dtype == result.numpy:
                return _round_float(values, rounding)
            if source_float and result is not DType.F32:
                values = flush(values)
            converted = keep_sign(narrow(values.astype(np.float32), result, rounding))
            return _all_set(converted) if values.dtype == np.float16 else converted
        if source_float:
            return saturate(round_to_int(values, rounding), result.numpy)
        return saturate(values.astype(np.int64), result.numpy)


_MANTISSA_BITS = {DType.F16: 11, DType.BF16: 8, DType.F32: 24}
_KEEPS_FINITE = {Rounding.TOWARDS_ZERO: (True, True), Rounding.DOWN: (True, False), Rounding.UP: (False, True)}
"""Rounding modes in which overflow gives the largest finite number, for (positive, negative) values."""


def _int_to_float(values: Array, result: DType, rounding: Rounding) -> Array:
    """Round integers to as many leading bits as the mantissa holds, then convert exactly."""
    _, length = np.frexp(np.abs(values).astype(np.float64))
    spare = np.maximum(length - _MANTISSA_BITS[result], 0)
    whole = (shift_right(values, spare, rounding) << spare).astype(np.float64)
    if result is DType.F16:
        above, below = _KEEPS_FINITE.get(rounding, (False, False))
        whole = np.where(whole > 65504, 65504 if above else np.inf, whole)
        whole = np.where(whole < -65504, -65504 if below else -np.inf, whole)
    return whole.astype(np.float32).astype(result.numpy)


_ON_MAGNITUDE = {Rounding.HALF_UP: Rounding.HALF_AWAY_FROM_ZERO, Rounding.HALF_DOWN: Rounding.HALF_TOWARDS_ZERO}


def narrow(values: Array, result: DType, rounding: Rounding = Rounding.HALF_TO_EVEN) -> Array:
    """Convert f32 to a float type. Half up and half down apply to the magnitude."""
    if rounding is Rounding.HALF_TO_EVEN or result is DType.F32:
        return values.astype(result.numpy)
    if result is DType.F16:
        return _narrow_f16(values, _ON_MAGNITUDE.get(rounding, rounding))
    bits = values.view(np.int32)
    sign = np.where(bits < 0, -1, 1)
    magnitude = shift_right(sign * (bits & 0x7FFFFFFF).astype(np.int64), 16, _ON_MAGNITUDE.get(rounding, rounding))
    rounded = (np.abs(magnitude) << 16 | (bits.astype(np.int64) & 0x80000000)).astype(np.uint32)
    return np.where(np.isfinite(values), rounded.view(np.float32), values).astype(result.numpy)


def _narrow_f16(values: Array, rounding: Rounding) -> Array:
    finite = np.where(np.abs(values) < 65536, values, 0).astype(np.float64)
    _, exponent = np.frexp(finite)
    unit = np.ldexp(1.0, np.maximum(exponent - 11, -24))  # of the last place, also where f16 is denormal
    rounded = np.copysign(round_to_int(finite / unit, rounding) * unit, finite)
    above, below = _KEEPS_FINITE.get(rounding, (False, False))
    if rounding is Rounding.HALF_TOWARDS_ZERO:
        above, below = np.asarray(finite <= 65520), np.asarray(finite >= -65520)
    rounded = np.where(rounded > 65504, np.where(above, 65504, np.inf), rounded)
    rounded = np.where(rounded < -65504, np.where(below, -65504, -np.inf), rounded)
    return np.where(np.abs(values) < 65536, rounded, values).astype(np.float16)


def _round_float(values: Array, rounding: Rounding) -> Array:
    """Round to whole numbers. Floats from 2**24 up are already whole; NaN is kept."""
    small = np.abs(values.astype(np.float32)) < 1 << 24
    rounded = round_to_int(np.where(small, values, 0), rounding).astype(values.dtype)
    return np.where(small, np.copysign(rounded, values), values)


def shift(op: int, values: Array, amount: Array, result: DType, rounding: Rounding) -> Array:
    """Shift by `amount`, positive to the left. Right shifts round; the result wraps."""
    if op == CIRCULAR_SHIFT:
        return _rotate(values, amount)
    if op == LOGICAL_SHIFT:
        values = values.view(f"u{values.dtype.itemsize}")
    return wrap(shift_right(values.astype(np.int64), -amount.astype(np.int64), rounding), result)


def _rotate(values: Array, amount: Array) -> Array:
    width = 8 * values.dtype.itemsize
    bits = values.view(f"u{values.dtype.itemsize}").astype(np.uint64)
    left = (amount.astype(np.int64) % width).astype(np.uint64)
    rotated = (bits << left) | (bits >> (np.uint64(width) - left))
    return (rotated & np.uint64((1 << width) - 1)).astype(f"u{values.dtype.itemsize}").view(values.dtype)


def compare(op: int, left: Array, right: Array) -> Array:
    """Greater, equal or less, by the operation codes of SELECT."""
    with np.errstate(invalid="ignore"):
        if op == SELECT_EQUAL:
            return equal(left, right)
        if left.dtype.kind in "iu":
            return np.greater(left, right) if op == SELECT_GREATER else np.less(left, right)
        return np.greater(flush(left), flush(right)) if op == SELECT_GREATER else less(left, right)


def select(op: int, left: Array, right: Array, chosen: Array, result: DType) -> Array:
    """`chosen` where the comparison holds, else 0."""
    return np.where(compare(op, left, right), chosen.astype(result.numpy), np.zeros((), result.numpy))


def multiply_add(old: Array, left: Array, right: Array, shifts: Array | None, rounding: Rounding) -> Array:
    """`old + left * right`, rounded after the product and after the sum."""
    if old.dtype.kind in "iu":
        raise IllegalCommand("ar.multiply_add: the simulator supports only floats; use MUL and ADD")
    del shifts, rounding
    with np.errstate(all="ignore"):
        product = flush(canonical(flush(left) * flush(right)))
        return canonical(flush(flush(old) + product))


def simple(op: int, left: Array, right: Array) -> Array:
    """Operations whose operands and result have the same type."""
    with np.errstate(all="ignore"):
        match op:
            case 1:
                return ~left
            case 4:
                return maximum(left, right)
            case 5:
                return minimum(left, right)
            case 7:
                return _bits(left) & _bits(right)
            case 8:
                return _bits(left) | _bits(right)
            case 9:
                return _bits(left) ^ _bits(right)
            case 19:
                return left
            case 26:
                return np.abs(left)
            case 27:
                return abs_difference(left, right)
            case 29 | 30:
                return _leading(left, ones=op == 30)
            case _:
                raise IllegalCommand(f"ar operation {op}: the simulator does not support it; use another")


@np.errstate(all="ignore")
def reciprocal_root(values: Array, iterations: int, *, at_ends: bool = False) -> Array:
    """`1 / sqrt(values)` of f32 by Newton's method. The initial guess halves and negates the exponent by integer
    arithmetic on the bits. `at_ends`: zero gives infinity of its sign, infinity 0, and a negative number none.
    """
    half = flush(values * np.float32(0.5))
    root = flush((_ROOT_GUESS - (values.view(np.int32) >> 1)).view(np.float32))
    for _ in range(iterations):
        root = flush(root * (np.float32(1.5) - flush(flush(half * root) * root)))
    if at_ends:
        root = np.where(values == 0, np.copysign(np.float32(np.inf), values), root)
        root = np.where(values == np.inf, np.float32(0), root)
        root = np.where((flush(values) < 0) | np.isnan(values), _NO_NUMBER, root)
    return root


def divide(left: Array, right: Array, iterations: int, *, at_ends: bool = False) -> Array:
    """`left` times the squared reciprocal square root of `
    right
    `, with the sign of `right`; 1 to 4 iterations.
    """
    with np.errstate(all="ignore"):
        root = reciprocal_root(np.abs(right), (iterations - 1) % 4 + 1, at_ends=at_ends)
        value = flush(flush(left) * flush(root * root))
        return np.where(np.signbit(right), -value, value)


_ROOT_GUESS = np.int32(0x5F3759DF)
_NO_NUMBER = np.uint32(0xFFC00000).view(np.float32)


def abs_difference(left: Array, right: Array) -> Array:
    """The larger operand minus the smaller one; -0.0 for 0.0 and -0.0."""
    left, right = flush(left), flush(right)
    return canonical(flush(np.where(left > right, left - right, right - left)))


def maximum(left: Array, right: Array) -> Array:
    """The larger operand; `right` when they are equal or unordered."""
    left, right = flush(left), flush(right)
    with np.errstate(invalid="ignore"):
        return np.where(left > right, left, right)


def minimum(left: Array, right: Array) -> Array:
    """The smaller operand; `right` when they are equal, `left` when one is NaN."""
    left, right = flush(left), flush(right)
    with np.errstate(invalid="ignore"):
        return np.where(left >= right, right, left)


def less(left: Array, right: Array) -> Array:
    """Neither greater nor equal, by value or by bits; therefore true for NaN with different bits."""
    same = equal(left, right)
    return ~(np.greater_equal(flush(left), flush(right)) | same)


def equal(left: Array, right: Array) -> Array:
    """Bitwise equality, so 0.0 and -0.0 differ."""
    return np.equal(_bits(left), _bits(right))


_DENORMAL_LIMIT = {np.dtype(np.float32): 1 << 24, np.dtype(ml_dtypes.bfloat16): 1 << 8}
"""Twice the bit pattern without sign; smaller nonzero patterns are denormal."""


def flush(values: Array) -> Array:
    """Flush f32 and bf16 denormals to zeros of the same sign, as the model does on reads and writes; f16 is
    unchanged.
    """
    limit = _DENORMAL_LIMIT.get(values.dtype)
    if limit is None:
        return values
    kind = np.dtype(f"u{values.dtype.itemsize}")
    bits = np.left_shift(values.view(kind), 1, out=np.empty(values.shape, kind))
    np.subtract(bits, 1, out=bits)  # a zero becomes the largest number
    denormal = bits < limit - 1
    return np.where(denormal, np.copysign(values.dtype.type(0), values), values) if denormal.any() else values


def canonical(values: Array) -> Array:
    """Replace every 16-bit NaN by the NaN of arithmetic: all bits set except the sign. f32 keeps the host's NaN."""
    return values if values.dtype.itemsize == 4 else _all_set(values, 0)


def keep_sign(values: Array) -> Array:
    """Replace every 16-bit NaN by the NaN of casts and matrix products: all bits set, with its own sign."""
    return values if values.dtype.itemsize == 4 else _all_set(values)


def _all_set(values: Array, sign: int = -1) -> Array:
    nan = np.isnan(values)
    if nan.any():
        kind = np.dtype(f"u{values.dtype.itemsize}")
        bits, magnitude = values.view(kind), np.iinfo(kind).max >> 1
        bits[nan] = (bits[nan] & ~kind.type(magnitude) if sign else 0) | kind.type(magnitude)
    return values


def _bits(values: Array) -> Array:
    return values if values.dtype.kind in "iu" else values.view(f"u{values.dtype.itemsize}")


def _leading(values: Array, *, ones: bool) -> Array:
    width = 8 * values.dtype.itemsize
    bits = _bits(values).astype(np.int64) & ((1 << width) - 1)
    if ones:
        bits = ~bits & ((1 << width) - 1)
    lengths = np.zeros(bits.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        high = bits >> step
        lengths += np.where(high > 0, step, 0)
        bits = np.where(high > 0, high, bits)
    return (width - lengths - (bits > 0)).astype(values.dtype)
