"""Operands of kernel samples."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from tpuc.api import BF16, TensorType
from tpuc_testing import Typed, quantized, quantized_element, uniform
from tpuc_testing.kernel_conformance import Fixed

QDM: Any = {"quant_mode": "QDM", "round_mode": "HalfAwayFromZero"}
I8, U8 = quantized_element("int8", 0.05), quantized_element("uint8", 0.05)


def stored_bytes(*shape: int, dtype: str = "int8", seed: int = 0) -> Typed:
    """All values of a byte."""
    limits = np.iinfo(dtype)
    values = np.random.default_rng(seed).integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return quantized(values, 0.05)


def halves(*shape: int, seed: int = 0, low: float = -4, high: float = 4) -> Typed:
    """bf16."""
    array = uniform(*shape, low=low, high=high, seed=seed).astype(ml_dtypes.bfloat16)
    return Typed(array, TensorType(array.shape, BF16))


def byte_filter(*shape: int, seed: int = 1) -> Fixed:
    """A constant of signed bytes."""
    return Fixed(np.random.default_rng(seed).integers(-127, 128, shape, np.int8), "si8")


def half_filter(*shape: int, seed: int = 1) -> Fixed:
    """A constant of bf16."""
    return Fixed(uniform(*shape, seed=seed).astype(ml_dtypes.bfloat16).view(np.uint16), "bf16")


def bias(*shape: int) -> Fixed:
    """A constant of int32."""
    return Fixed(np.random.default_rng(2).integers(-9000, 9000, shape, np.int32))


def factors(channels: int, terms: int) -> dict[str, Any]:
    """Multipliers and shifts per channel that keep sums of so many products within a byte."""
    random = np.random.default_rng(3)
    shift = int(np.log2(127 * np.sqrt(terms)))
    return {
        "multiplier": tuple(int(value) for value in random.integers(1 << 30, (1 << 31) - 1, channels)),
        "rshift": tuple(int(value) for value in random.integers(shift, shift + 3, channels)),
        **QDM,
    }
