"""Round constants to a chip's float types; no other code does this."""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np
from tpuc.api import ScalarType, numpy_dtype
from tpuc_ops.arrays import Array

_PART = 1 << 18
"""Numbers that are rounded together, to stay in the processor's cache."""


@functools.cache
def largest(element: ScalarType) -> float:
    """The largest finite number of a float type."""
    return float(ml_dtypes.finfo(numpy_dtype(element)).max)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def held(array: Array, element: ScalarType, *, has_infinity: bool = True) -> Array:
    """Constants rounded to a float type, half to even. A finite number beyond the type becomes its largest number,
    never infinite, because 0 times infinity is NaN. Infinities stay where the chip supports them; elsewhere they
    become the largest number, too.
    """
    limit, dtype = largest(element), numpy_dtype(element)
    wide = array.astype(np.float32) if array.dtype.kind != "f" or array.dtype.itemsize < 4 else array
    result = np.empty(wide.shape, dtype)
    given, rounded = wide.reshape(-1), result.reshape(-1)
    for first in range(0, given.size, _PART):
        part = given[first : first + _PART]
        near = np.clip(part, -limit, limit)
        if has_infinity:
            infinite = np.isinf(part)
            near = np.where(infinite, part, near) if infinite.any() else near
        rounded[first : first + _PART] = near.astype(np.float32, copy=False).astype(dtype, copy=False)
    return result


def held_number(value: float, element: ScalarType, *, has_infinity: bool = True) -> float:
    """The same for a single number, such as an immediate of a command."""
    return float(held(np.asarray(value, np.float64), element, has_infinity=has_infinity))
