"""Shared arithmetic of normalization ops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tpuc_ops.arrays import Array, as_float


def normalized(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    """``(x - mean) / sqrt(variance + eps)`` over `axes`."""
    mean = x.mean(axes, keepdims=True)
    variance = np.square(x - mean).mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + np.float32(eps))


def per_channel(x: Array, affine: Sequence[Array]) -> Array:
    """Multiply `x: [n, c, ...]` by the first and add the second of up to two operands with one number per channel."""
    shape = (1, -1, *(1,) * (x.ndim - 2))
    if affine and affine[0].size:
        x = x * as_float(affine[0]).reshape(shape)
    if len(affine) > 1 and affine[1].size:
        x = x + as_float(affine[1]).reshape(shape)
    return x
