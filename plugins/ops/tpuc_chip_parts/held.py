"""Round constants to a chip's float types; no other code does this."""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np
from tpuc.api import ScalarType, numpy_dtype
from tpuc_ops.arrays import Array


@functools.cache
def largest(element: ScalarType) -> float:
    """The largest finite number of a float type."""
    return float(ml_dtypes.finfo(numpy_dtype(element)).max)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def held(array: Array, element: ScalarType, *, has_infinity: bool = True) -> Array:
    """Constants rounded to a float type, half to even. A finite number beyond the type becomes its largest number,
    never infinite, because 0 times infinity is NaN. Infinities stay where the chip supports them; elsewhere they
    become the largest number, too.
    """
    limit = largest(element)
    wide = array.astype(np.float32) if array.dtype.kind != "f" or array.dtype.itemsize < 4 else array
    near = np.clip(wide, -limit, limit)
    if has_infinity:
        infinite = np.isinf(wide)
        near = np.where(infinite, wide, near) if infinite.any() else near
    return near.astype(np.float32, copy=False).astype(numpy_dtype(element), copy=False)


def held_number(value: float, element: ScalarType, *, has_infinity: bool = True) -> float:
    """The same for a single number, such as an immediate of a command."""
    return float(held(np.asarray(value, np.float64), element, has_infinity=has_infinity))
