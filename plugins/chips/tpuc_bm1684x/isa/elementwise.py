"""The numpy meaning of element-wise operations, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from tpuc.errors import IllegalCommand
from tpuc_ops.quant.arithmetic import Rounding, round_to_int, saturate, shift_right

from tpuc_bm1684x.isa.types import Array, DType

MUL, NOT, ADD, SUB, MAX, MIN, AND, OR, XOR = 0, 1, 2, 3, 4, 5, 7, 8, 9
SELECT_GREATER, SELECT_EQUAL, DIV, SELECT_LESS = 10, 11, 12, 13
COPY, ABS, ABS_DIFFERENCE, LEADING_ZEROS, LEADING_ONES = 19, 26, 27, 29, 30
_KIND = {0: MUL, 2: ADD, 3: SUB, 15: ADD, 16: SUB, 20: MUL}
LOGICAL_SHIFT, ARITHMETIC_SHIFT = 6, 21


def wrap(values: Array, dtype: DType) -> Array:
    """The low bits of int64 values."""
    return values.astype(np.int64, copy=False).astype(dtype.numpy)


def combine(op: int, left: Array, right: Array, result: DType, shift: Array | None, rounding: Rounding) -> Array:
    """Sum, difference or product; codes from 15 saturate."""
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
        value = _raw(kind, left.astype(np.float32), right.astype(np.float32))
        return value.astype(result.numpy)


def cast(values: Array, result: DType, rounding: Rounding) -> Array:
    """Type conversion: to narrower floats half to even, to integers with `rounding`, saturating."""
    source_float = values.dtype.kind not in "iu"
    with np.errstate(all="ignore"):
        if result.is_float:
            if source_float and values.dtype == result.numpy:
                return round_to_int(values.astype(np.float64), rounding).astype(result.numpy)
            return values.astype(np.float32).astype(result.numpy)
        if source_float:
            wide = np.nan_to_num(round_to_int(values.astype(np.float64), rounding), nan=0.0)
            limits = np.iinfo(result.numpy)
            return np.clip(wide, limits.min, limits.max).astype(np.int64).astype(result.numpy)
        return saturate(values.astype(np.int64), result.numpy)


def shift(op: int, values: Array, amount: Array, result: DType, rounding: Rounding) -> Array:
    """Shift by `amount`, positive to the left; right shifts round; the result wraps."""
    if op == LOGICAL_SHIFT:
        values = values.view(f"u{values.dtype.itemsize}")
    elif op != ARITHMETIC_SHIFT:
        raise IllegalCommand("ar.circular_shift: the simulator does not know this operation; use another")
    return wrap(shift_right(values.astype(np.int64), -amount.astype(np.int64), rounding), result)


def compare(op: int, left: Array, right: Array) -> Array:
    """Greater, equal or less, by the codes of SELECT."""
    if op == SELECT_GREATER:
        return np.greater(left, right)
    return np.equal(left, right) if op == SELECT_EQUAL else np.less(left, right)


def select(op: int, left: Array, right: Array, chosen: Array, result: DType) -> Array:
    """`chosen` where the comparison holds, else 0."""
    return np.where(compare(op, left, right), chosen.astype(result.numpy), np.zeros((), result.numpy))


def multiply_add(old: Array, left: Array, right: Array, shifts: Array | None, rounding: Rounding) -> Array:
    """`old + left * right`, with a rounding after the product and one after the sum."""
    if old.dtype.kind in "iu":
        raise IllegalCommand("ar.multiply_add: the simulator knows floats only; use MUL and ADD")
    del shifts, rounding
    return old + left * right


def simple(op: int, left: Array, right: Array) -> Array:
    """Operations whose operands and result have one type."""
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
            case 12:
                return left / right
            case 19:
                return left
            case 26:
                return np.abs(left)
            case 27:
                return np.abs(left - right)
            case 29 | 30:
                return _leading(left, ones=op == 30)
            case _:
                raise IllegalCommand(f"ar operation {op}: the simulator does not know it; use another")


def maximum(left: Array, right: Array) -> Array:
    """The greater one; `left` when they are equal or not comparable."""
    return np.where(right > left, right, left)


def minimum(left: Array, right: Array) -> Array:
    """The smaller one; `left` when they are equal or not comparable."""
    return np.where(right < left, right, left)


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
