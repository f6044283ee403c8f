"""Map types of values to numpy types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import ScalarType, Type, numpy_dtype

from tpuc_tensorflow.dialects.types import element_type

MOST_ELEMENTS = 1 << 26
"""Maximum number of elements of an array made from a shape, so that a constant does not fill the memory."""


def dtype_of(type: Type) -> np.dtype[Any] | None:
    """Return the dtype of a type; None for strings, resources, and the like."""
    element = element_type(type)
    return numpy_dtype(element) if isinstance(element, ScalarType) else None


def checked_shape(extents: Sequence[int]) -> tuple[int, ...]:
    """Return a shape that an array may have; raises ValueError otherwise."""
    shape = tuple(int(extent) for extent in extents)
    if min(shape, default=1) < 0 or math.prod(shape) > MOST_ELEMENTS:
        raise ValueError(f"the shape {list(shape)} is impossible")
    return shape
