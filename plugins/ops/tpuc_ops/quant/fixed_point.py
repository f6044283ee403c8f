"""Steps of TFLite's kernels in int32 fixed point, on int64 arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tpuc_ops.quant.arithmetic import Array


def high_product(x: Array, y: ArrayLike) -> Array:
    """Return the upper half of the doubled product of two int32, rounded half up."""
    return (x * np.asarray(y) + (1 << 30)) >> 31


def bit_lengths(x: Array) -> Array:
    """Return the number of bits of integers from 0 to 2**53."""
    return np.frexp(x.astype(np.float64))[1].astype(np.int64)


def shift_left(x: Array, places: int) -> Array:
    """``x * 2**places``, saturated to int32."""
    return np.clip(x << places, -(1 << 31), (1 << 31) - 1)
