"""Arrays of tensors: which numpy type stores an element, and how a float result becomes one."""

from __future__ import annotations

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tpuc.api import ScalarType, TensorType

Array: TypeAlias = npt.NDArray[Any]

_DTYPES: dict[str, npt.DTypeLike] = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "index": np.int64,
    "i1": np.bool_,
}
_INTEGERS = {8: ("int8", "uint8"), 16: ("int16", "uint16"), 32: ("int32", "uint32"), 64: ("int64", "uint64")}


def dtype_of(storage: ScalarType) -> np.dtype[Any]:
    """The numpy type of stored elements; raises ValueError for one that numpy lacks."""
    if storage.name in _DTYPES:
        return np.dtype(_DTYPES[storage.name])
    if storage.is_float or storage.bits not in _INTEGERS:
        raise ValueError(f"elements of type {storage.name} have no numpy type")
    return np.dtype(_INTEGERS[storage.bits][storage.is_unsigned])


def as_float(x: Array) -> npt.NDArray[np.float32]:
    """The values in float32, in which every narrower float and 16-bit integer is exact."""
    return x.astype(np.float32, copy=False)


def stored(x: Array, type: TensorType) -> Array:
    """A float result in the float type that `type` stores, rounded to nearest even; too large becomes infinite."""
    with np.errstate(over="ignore"):
        return x.astype(dtype_of(type.storage), copy=False)


def relu(x: Array, do_relu: bool, limit: float) -> Array:
    """``max(x, 0)``, cut off at a positive `limit`, when `do_relu`."""
    if not do_relu:
        return x
    return np.clip(x, 0, limit if limit > 0 else None)
