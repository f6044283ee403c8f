"""Functions of one float32 array, computed by the activation ops of both dialects."""

from __future__ import annotations

import functools
import math

import numpy as np

from tpuc_ops import elementary
from tpuc_ops.arrays import Array

_ERF_END = 4
"""From here on, the error function is 1 in float32."""
_ERF_NODES = 1024
"""Number of tabulated values per unit."""
_BLOCK = 1 << 14
"""Number of elements per block, so that intermediate arrays stay in the cache."""


def sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))``, written so that the exponential never overflows."""
    small = elementary.exp(-np.abs(x))
    return np.maximum(small, x >= 0) / (1 + small)  # the larger one of both takes a fifth of the time of a choice


def silu(x: Array) -> Array:
    """``x / (1 + exp(-x))``; where the exponential overflows, the result is 0, as it should be."""
    result = elementary.exp(-x)
    result += 1
    return np.divide(x, result, out=result)


def log_sigmoid(x: Array) -> Array:
    """``log(sigmoid(x))``, accurate even if the sigmoid underflows."""
    return -softplus(-x)


def relu(x: Array) -> Array:
    """``max(x, 0)``."""
    return np.maximum(x, 0)


def softplus(x: Array) -> Array:
    """``log(1 + exp(x))``."""
    return elementary.softplus(x)


def erf(x: Array) -> Array:
    """The error function in float32, by Taylor series in float64 around tabulated values.

    The truncation error is below 1e-17, so results differ only where they lie exactly between two floats.
    """
    series = _erf_series()
    flat, result = x.reshape(-1), np.empty(x.size, np.float32)
    for start in range(0, flat.size, _BLOCK):
        part = flat[start : start + _BLOCK].astype(np.float64)
        size = np.minimum(np.abs(part), _ERF_END)
        place = np.rint(np.fmin(size, _ERF_END) * _ERF_NODES).astype(np.intp)  # of NaN any: the step keeps it
        step = size - place / _ERF_NODES
        total = series[-1][place]
        for factors in reversed(series[:-1]):
            total *= step
            total += factors[place]
        result[start : start + _BLOCK] = np.copysign(total, part)
    return result.reshape(x.shape)


@functools.cache
def _erf_series() -> Array:
    """Return the coefficients of ``d**0`` to ``d**4`` in ``erf(a + d)`` for every node a: `[5, nodes]`."""
    nodes = np.arange(_ERF_END * _ERF_NODES + 1) / _ERF_NODES
    values = elementary.erf(nodes)
    slope = 2 / math.sqrt(math.pi) * elementary.exp(-(nodes**2))
    return np.stack(
        [values, slope, -nodes * slope, (2 * nodes**2 - 1) / 3 * slope, (3 * nodes - 2 * nodes**3) / 6 * slope]
    )


def gelu(x: Array) -> Array:
    """``x * P(X <= x)`` for a standard normal X."""
    return x * (0.5 * (1 + erf(x * np.float32(math.sqrt(0.5)))))


def tanh_gelu(x: Array) -> Array:
    """`gelu` with the tanh approximation of the distribution function."""
    return x * (
        0.5 * (1 + elementary.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * (x * x * x))))
    )


def hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    """``alpha * x + beta``, clipped to 0 and 1."""
    return np.clip(np.float32(alpha) * x + np.float32(beta), 0, 1)


def elu(x: Array, alpha: float) -> Array:
    """``x`` above 0, ``alpha * (exp(x) - 1)`` below."""
    return np.where(x > 0, x, np.float32(alpha) * elementary.expm1(np.minimum(x, 0)))
