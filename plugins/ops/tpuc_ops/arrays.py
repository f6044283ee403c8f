"""Convert arrays of tensors to float32, and float results to their stored type."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.api import TensorType, numpy_dtype

Array: TypeAlias = npt.NDArray[Any]


def as_float(x: Array) -> npt.NDArray[np.float32]:
    """Return the values in float32, which represents every narrower float and 16-bit integer exactly."""
    return x.astype(np.float32, copy=False)


def stored(x: Array, type: TensorType) -> Array:
    """Round a float result to the float type that `type` stores, to nearest even; overflow becomes infinite."""
    with np.errstate(over="ignore"):
        return x.astype(numpy_dtype(type.storage), copy=False)


def held(number: float, type: TensorType) -> Array:
    """A constant of an op as commands hold it: in the float type of its operand, to nearest even. Beside integers it is
    float32.
    """
    near = np.asarray(number, np.float32)
    return as_float(stored(near, type)) if type.shape_only().storage.is_float and not type.is_quantized else near


def relu(x: Array, do_relu: bool, limit: float, *, in_place: bool = False) -> Array:
    """``max(x, 0)``, limited to a positive `limit`, if `do_relu`."""
    if not do_relu:
        return x
    # With both limits numpy takes a third of the time that it takes with one.
    return np.clip(x, 0, limit if limit > 0 else np.inf, out=x if in_place else None)
