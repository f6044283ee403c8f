"""The chip's bf16 arithmetic: denormal inputs are flushed, ordered sums are rounded toward zero, overflow gives
0x7F7F.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tpuc_cv18.isa.types import Array

F32Array = npt.NDArray[np.float32]
OVERFLOW = 0x7F7F
"""Bit pattern of every overflowing result, whatever its sign."""
_EXPONENT = np.uint32(0x7F800000)
_MAXIMUM = np.float32(3.4028234663852886e38)
_SMALLEST = np.float32(2.0**-126)
_BLOCK_ELEMENTS = 1 << 16


def widen(bits: Array) -> F32Array:
    """Convert bf16 patterns to float32. Zeros and denormals become +0; the highest exponent becomes NaN."""
    wide = bits.astype(np.uint32) << np.uint32(16)
    exponent = wide & _EXPONENT
    wide[exponent == 0] = 0
    wide[exponent == _EXPONENT] = 0x7FC00000
    return wide.view(np.float32)


def narrow(values: Array, relu: bool = False) -> npt.NDArray[np.uint16]:
    """Round float32 half to even to bf16. Denormals and -0 become 0, overflow and NaN become 0x7F7F; with `relu`,
    negative values become 0.
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    result = (rounded >> np.uint32(16)).astype(np.uint16)
    exponent = result & np.uint16(0x7F80)
    result[exponent == 0] = 0
    result[(exponent == 0x7F80) | (bits & _EXPONENT == _EXPONENT)] = OVERFLOW
    if relu:
        result[result >= 0x8000] = 0
    return result


class Accumulator:
    """Accumulate in float32, rounding each addition toward zero. `add` takes exact products in the documented order."""

    def __init__(self, start: Array, *, wide_range: bool = True) -> None:
        """`wide_range`: sums may leave the range of normal numbers, so each sum is checked."""
        self.total: F32Array = np.array(start, np.float32)
        self._wide_range = wide_range
        self._sum = np.empty_like(self.total)
        self._part = np.empty_like(self.total)
        self._error = np.empty_like(self.total)
        self._flag = np.empty(self.total.shape, np.bool_)
        self._other = np.empty(self.total.shape, np.bool_)

    def add(self, term: F32Array) -> None:
        """Add one term per element. The exact error of the sum rounded to nearest (Knuth's two-sum) shows where it was
        rounded away from zero.
        """
        total, result, part, error = self.total, self._sum, self._part, self._error
        np.add(total, term, out=result)
        np.subtract(result, total, out=part)
        np.subtract(result, part, out=error)
        np.subtract(total, error, out=error)
        np.subtract(term, part, out=part)
        np.add(error, part, out=error)
        np.not_equal(error, 0, out=self._flag)
        np.bitwise_xor(error.view(np.int32), result.view(np.int32), out=part.view(np.int32))
        np.less(part.view(np.int32), 0, out=self._other)
        np.logical_and(self._flag, self._other, out=self._flag)
        np.subtract(result.view(np.int32), self._flag, out=result.view(np.int32), casting="unsafe")
        if self._wide_range:
            self._repair(result, total, term)
        self.total, self._sum = result, total

    @staticmethod
    def _repair(result: F32Array, total: F32Array, term: F32Array) -> None:
        """Keep overflowing sums infinite or NaN, and flush denormal sums to zero."""
        nearest = total + term
        lost = ~np.isfinite(nearest)
        if lost.any():
            result[lost] = nearest[lost]
        result[np.abs(result) < _SMALLEST] = 0


def flush(values: F32Array) -> F32Array:
    """Replace denormal numbers by zero."""
    return np.where(np.abs(values) < _SMALLEST, np.float32(0), values)


def saturate_sums(values: F32Array) -> F32Array:
    """Partial sums as stored: infinities and NaN, of any sign, become the largest positive number."""
    return np.where(np.isfinite(values), values, _MAXIMUM)


def add_toward_zero(left: F32Array, right: F32Array) -> F32Array:
    """One sum per element, rounded toward zero."""
    total = Accumulator(np.broadcast_to(left, np.broadcast_shapes(left.shape, right.shape)))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        total.add(np.broadcast_to(right, total.total.shape))
    return total.total


def products(left: F32Array, right: F32Array) -> F32Array:
    """Exact products of bf16 values, with denormal products flushed."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        result = left * right
    result[np.abs(result) < _SMALLEST] = 0
    return result


def needs_care(left: F32Array, right: F32Array, depth: int) -> bool:
    """True when sums of `depth` products may leave the range of normal float32 numbers."""
    low_left, high_left = _exponents(left)
    low_right, high_right = _exponents(right)
    # Every sum is a multiple of the last bits' product: above 2^-126 that leaves no room for denormals.
    return low_left + low_right - 14 < -126 or high_left + high_right + 2 + depth.bit_length() > 127


def _exponents(values: F32Array) -> tuple[int, int]:
    """Exponents of the smallest and largest nonzero magnitude."""
    bits = values.view(np.uint32) & np.uint32(0x7FFFFFFF)
    used = bits[bits != 0]
    if not used.size:
        return 0, 0
    return (int(used.min()) >> 23) - 127, (int(used.max()) >> 23) - 127


def multiply_ordered(weight: F32Array, columns: F32Array, start: F32Array | None = None) -> F32Array:
    """`weight: [rows, depth]` times `columns: [depth, pixels]`, accumulated one term at a time in order of depth.
    Returns `[rows, pixels]`.
    """
    rows, depth = weight.shape
    pixels = columns.shape[1]
    if not pixels or not rows:
        return np.zeros((rows, pixels), np.float32)
    result = np.zeros((rows, pixels), np.float32) if start is None else np.array(start, np.float32)
    care = start is not None or needs_care(weight, columns, depth)
    width = min(pixels, 1 << 12)
    height = max(1, min(rows, _BLOCK_ELEMENTS // width))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for row in range(0, rows, height):
            for pixel in range(0, pixels, width):
                block = (slice(row, row + height), slice(pixel, pixel + width))
                result[block] = _multiply_block(weight[block[0]], columns[:, block[1]], result[block], care)
    return result


def _multiply_block(weight: F32Array, columns: F32Array, start: F32Array, care: bool) -> F32Array:
    total = Accumulator(start, wide_range=care)
    term = np.empty_like(total.total)
    transposed = np.ascontiguousarray(weight.T)
    for factor, column in zip(transposed, columns, strict=True):
        np.multiply(factor[:, None], column, out=term)
        if care:
            term[np.abs(term) < _SMALLEST] = 0
        total.add(term)
    return total.total
