"""Functions of one float32 array, by themselves: what the activation ops of both dialects compute."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from tpuc_ops.arrays import Array


def sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))``, written so that the exponential never overflows."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def log_sigmoid(x: Array) -> Array:
    """``log(sigmoid(x))``, exact where the sigmoid itself underflows."""
    return -softplus(-x)


def rsqrt(x: Array) -> Array:
    """``1 / sqrt(x)``."""
    return 1 / np.sqrt(x)


def relu(x: Array) -> Array:
    """``max(x, 0)``."""
    return np.maximum(x, 0)


def silu(x: Array) -> Array:
    """``x * sigmoid(x)``."""
    return x * sigmoid(x)


def softplus(x: Array) -> Array:
    """``log(1 + exp(x))``."""
    return np.logaddexp(x, np.float32(0))


def softsign(x: Array) -> Array:
    """``x / (1 + |x|)``."""
    return x / (1 + np.abs(x))


def mish(x: Array) -> Array:
    """``x * tanh(softplus(x))``."""
    return x * np.tanh(softplus(x))


def erf(x: Array) -> Array:
    """The error function, in float64 by the C library."""
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(np.float32) if x.size else x


def gelu(x: Array) -> Array:
    """``x * P(X <= x)`` of a standard normal X."""
    return x * (0.5 * (1 + erf(x * np.float32(math.sqrt(0.5)))))


def tanh_gelu(x: Array) -> Array:
    """`gelu` with a tanh for the distribution function."""
    return x * (0.5 * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3))))


def hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    """``alpha * x + beta`` within 0 and 1."""
    return np.clip(np.float32(alpha) * x + np.float32(beta), 0, 1)


def hard_swish(x: Array) -> Array:
    """``x * clip(x / 6 + 1 / 2, 0, 1)``."""
    return x * hard_sigmoid(x, 1 / 6, 0.5)


def elu(x: Array, alpha: float) -> Array:
    """``x`` above 0, ``alpha * (exp(x) - 1)`` below."""
    return np.where(x > 0, x, np.float32(alpha) * np.expm1(np.minimum(x, 0)))


BY_MODE: Mapping[str, Callable[[Array], Array]] = {
    "ABSVAL": np.abs,
    "ARCCOS": np.arccos,
    "ARCCOSH": np.arccosh,
    "ARCSIN": np.arcsin,
    "ARCSINH": np.arcsinh,
    "ARCTAN": np.arctan,
    "ARCTANH": np.arctanh,
    "CEIL": np.ceil,
    "COS": np.cos,
    "COSH": np.cosh,
    "ERF": erf,
    "EXP": np.exp,
    "FLOOR": np.floor,
    "GELU": gelu,
    "HSWISH": hard_swish,
    "LN": np.log,
    "LOG_SIGMOID": log_sigmoid,
    "MISH": mish,
    "RELU": relu,
    "ROUND": np.rint,
    "RSQRT": rsqrt,
    "SIGMOID": sigmoid,
    "SIGN": np.sign,
    "SILU": silu,
    "SIN": np.sin,
    "SINH": np.sinh,
    "SOFT_PLUS": softplus,
    "SOFT_SIGN": softsign,
    "SQRT": np.sqrt,
    "SQUARE": np.square,
    "TAN": np.tan,
    "TANH": np.tanh,
    "TGELU": tanh_gelu,
}
"""By the mode of `tpu.Active`; those that need coefficients are in the op."""
