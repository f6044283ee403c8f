"""Elementary functions for float32 and float64 that give the same result on every processor.

numpy and C libraries select implementations by processor, which differ in the last digit. These functions use only
additions, multiplications, divisions, and roots, whose results IEEE 754 defines. They compute in float64 with an error
of a few 1e-16 and return the argument's type; `exp` of float32 computes in float32, within two units in the last place.
Infinities, NaN, and zeros give the same results as in numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]

BLOCK = 1 << 13
"""Number of elements per block, so that intermediate arrays stay in the cache."""
_LN2_HIGH, _LN2_LOW = 0x162E42FEE00000 / 2**53, 1.90821492927058770002e-10
_LN2_HIGH_32, _LN2_LOW_32 = np.float32(0.693359375), np.float32(-2.12194440e-4)
_LN2, _LOG2_E = 0.6931471805599453, 1.4426950408889634
_PI_HALF = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
"""Half of pi in parts of 33 bits: their products with integers below 2**20 are exact."""
_MOST_QUARTERS = 1 << 20
_EXP = tuple(1.0 / math.factorial(power) for power in range(14))
_EXP_32 = tuple(
    np.float32(one) for one in (1.0, 1.0, 0.5, 1.6666665e-1, 4.1665795e-2, 8.3334519e-3, 1.3981999e-3, 1.9875691e-4)
)
_ATANH = tuple(1.0 / power for power in range(1, 26, 2))
_ARCTAN = tuple((-1.0) ** (power // 2) / power for power in range(1, 26, 2))
_SIN = tuple((-1.0) ** (power // 2) / math.factorial(power) for power in range(1, 18, 2))
_COS = tuple((-1.0) ** (power // 2) / math.factorial(power) for power in range(0, 18, 2))


def _series(x: Array, factors: tuple[Any, ...]) -> Array:
    result = x * factors[-1]
    for factor in reversed(factors[1:-1]):
        result += factor
        result *= x
    result += factors[0]
    return result


def _by_blocks(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Wrap a float64 function for arrays of any shape and float type; it is applied block by block."""

    def compute(x: Array) -> Array:
        x = np.asarray(x)
        dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
        flat, result = x.reshape(-1), np.empty(x.size, dtype)
        with np.errstate(all="ignore"):
            for start in range(0, x.size, BLOCK):
                result[start : start + BLOCK] = function(flat[start : start + BLOCK].astype(np.float64))
        return result.reshape(x.shape)

    compute.__doc__ = function.__doc__
    return compute


def _times_power(x: Array, exponents: Array) -> Array:
    """Compute ``x * 2 ** exponents`` in place, in two steps if a single factor would overflow or underflow."""
    bits, bias, integer = (23, 127, np.int32) if x.dtype == np.float32 else (52, 1023, np.int64)
    whole = exponents.astype(integer)
    if whole.min(initial=0) > -bias and whole.max(initial=0) <= bias:
        parts = [whole]
    else:
        parts = [whole >> 1, whole - (whole >> 1)]
    for part in parts:
        part += bias
        part <<= bits
        x *= part.view(x.dtype)
    return x


def _exp64(x: Floats) -> Floats:
    power = np.rint(np.fmin(np.fmax(x * _LOG2_E, -1100.0), 1100.0))
    rest = x - power * _LN2_HIGH
    rest -= power * _LN2_LOW
    result = _times_power(_series(rest, _EXP), power)
    return np.where(x < -800, 0.0, np.where(x > 800, np.inf, result))


def _exp32(x: Array) -> Array:
    rest = np.clip(x, np.float32(-110), np.float32(100))
    power = rest * np.float32(_LOG2_E)
    np.rint(power, out=power)
    for part in (_LN2_HIGH_32, _LN2_LOW_32):
        rest -= power * part
    return _times_power(_series(rest, _EXP_32), power)


def exp(x: Array) -> Array:
    """``e ** x``."""
    x = np.asarray(x)
    if x.dtype != np.float32:
        return _exp_wide(x)
    flat, result = x.reshape(-1), np.empty(x.size, np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, x.size, BLOCK):
            result[start : start + BLOCK] = _exp32(flat[start : start + BLOCK])
    return result.reshape(x.shape)


_exp_wide = _by_blocks(_exp64)


def _log64(x: Floats) -> Floats:
    """The natural logarithm."""
    part, power = np.frexp(x)
    low = part < math.sqrt(0.5)
    part, power = np.where(low, part * 2, part), power - low
    ratio = (part - 1) / (part + 1)
    result = power * _LN2_HIGH + (power * _LN2_LOW + 2 * ratio * _series(ratio * ratio, _ATANH))
    return np.where(x > 0, np.where(np.isinf(x), np.inf, result), np.where(x == 0, -np.inf, np.nan))


def _expm1_64(x: Floats) -> Floats:
    """``e ** x - 1``."""
    small = np.abs(x) < 0.25
    near = np.where(small, x, 0.0)
    return np.where(small, near * _series(near, _EXP[1:]), _exp64(x) - 1)


def _log1p_64(x: Floats) -> Floats:
    """``log(1 + x)``."""
    above = 1 + x
    result = _log64(above) - np.where(np.isinf(above), 0.0, ((above - 1) - x) / above)
    return np.where(above == 0, -np.inf, np.where(x == 0, x, result))


def _tanh64(x: Floats) -> Floats:
    """The hyperbolic tangent."""
    twice = _expm1_64(-2 * np.abs(x))
    return np.copysign(-twice / (2 + twice), x)


def _sinh64(x: Floats) -> Floats:
    """The hyperbolic sine."""
    size = np.abs(x)
    grown = _expm1_64(np.minimum(size, 1.0))
    large = _exp64(size / 2)
    return np.copysign(
        np.where(size < 1, (grown + grown / (grown + 1)) / 2, (large / 2) * large - 0.5 / large / large), x
    )


def _cosh64(x: Floats) -> Floats:
    """The hyperbolic cosine."""
    large = _exp64(np.abs(x) / 2)
    return (large / 2) * large + 0.5 / large / large


def _turned(x: Floats, quarters: int) -> Floats:
    """The sine, advanced by `quarters` quarter turns."""
    near = np.abs(x) < _MOST_QUARTERS
    turns = np.rint(np.where(near, x, 0.0) * (2 / math.pi))
    rest = np.where(near, x, 0.0)
    for part in _PI_HALF:
        rest = rest - turns * part
    square = rest * rest
    place = (turns.astype(np.int64) + quarters) & 3
    result = np.where(place & 1, _series(square, _COS), rest * _series(square, _SIN))
    result = np.where(place & 2, -result, result)
    far = ~near
    if far.any():
        function = math.cos if quarters else math.sin
        result[far] = [function(one) if math.isfinite(one) else math.nan for one in x[far].tolist()]
    return result


def _arctan64(x: Floats) -> Floats:
    """The inverse tangent: halve the angle twice, then sum the series."""
    size = np.abs(x)
    part = np.where(size > 1, 1 / np.maximum(size, 1.0), size)
    for _ in range(2):
        part = part / (1 + np.sqrt(1 + part * part))
    angle = 4 * part * _series(part * part, _ARCTAN)
    return np.copysign(np.where(size > 1, math.pi / 2 - angle, angle), x)


def _erf64(x: Floats) -> Floats:
    """The error function for arguments up to 6, by its series of positive terms."""
    term = 2 / math.sqrt(math.pi) * x * _exp64(-x * x)
    result = np.zeros_like(term)
    for number in range(1, 200):
        result += term
        term = term * (2 * x * x / (2 * number + 1))
    return result


log = _by_blocks(_log64)
arctan = _by_blocks(_arctan64)
erf = _by_blocks(_erf64)
expm1 = _by_blocks(_expm1_64)
log1p = _by_blocks(_log1p_64)
tanh = _by_blocks(_tanh64)
sinh = _by_blocks(_sinh64)
cosh = _by_blocks(_cosh64)
sin = _by_blocks(lambda x: _turned(x, 0))
cos = _by_blocks(lambda x: _turned(x, 1))
softplus = _by_blocks(lambda x: np.maximum(x, 0.0) + _log1p_64(_exp64(-np.abs(x))))
"""``log(1 + e ** x)``."""
sigmoid = _by_blocks(lambda x: 1 / (1 + _exp64(-x)))
"""``1 / (1 + e ** -x)``."""


def power(x: ArrayLike, exponent: ArrayLike) -> Array:
    """``x ** exponent``, with broadcasting."""
    with np.errstate(all="ignore"):
        result: Array = np.asarray(np.power(x, exponent))
        base, index = (np.broadcast_to(np.asarray(one, np.float64), result.shape) for one in (x, exponent))
        ordinary = np.isfinite(base) & np.isfinite(index) & (base != 0) & (index != 0) & (np.abs(base) != 1)
        ordinary &= ~np.isnan(result)
        size, index = np.abs(base[ordinary]), index[ordinary]
        found = np.where(index == 2, size * size, np.where(index == 0.5, np.sqrt(size), _power64(size, index)))
        result = result.copy() if result.ndim else result.reshape(1).copy()
        ordinary = ordinary.reshape(result.shape)
        result[ordinary] = np.copysign(found, result[ordinary])
        return result.reshape(base.shape)


def _power64(size: Floats, index: Floats) -> Floats:
    """``size ** index`` for positive sizes; the rounding error of exponent times logarithm stays below 1e-13 of a
    float32 result.
    """
    whole = np.rint(index)
    if index.size and (whole == index).all() and (index == index.flat[0]).all() and 0 < abs(index.flat[0]) <= 16:
        result = size.copy()
        for _ in range(int(abs(index.flat[0])) - 1):
            result *= size
        return 1 / result if index.flat[0] < 0 else result
    return _exp64(index * _log64(size))
