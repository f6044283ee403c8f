"""Conversions between element types and numpy dtypes; numpy is imported on first use."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias

from tpuc.errors import InvalidModel
from tpuc.ir.types import ScalarType, TensorType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]

_PLAIN = {"f16": "float16", "f32": "float32", "f64": "float64", "i1": "bool", "index": "int64"}
_EXTENDED = {"bf16": "bfloat16", "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2"}


@functools.cache
def numpy_dtype(scalar: ScalarType) -> np.dtype[Any]:
    """The dtype of arrays of an element type; integers below 8 bits take one byte each."""
    import numpy as np

    name = scalar.name
    if name in _PLAIN:
        return np.dtype(_PLAIN[name])
    if name in _EXTENDED:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, _EXTENDED[name]))
    if scalar.is_float or scalar.bits > 64:
        raise InvalidModel(f"elements of type {name} cannot be held in an array; convert them to f32 first")
    bits = next(bits for bits in (8, 16, 32, 64) if bits >= scalar.bits)
    return np.dtype(f"{'uint' if scalar.is_unsigned else 'int'}{bits}")


def holds_numbers(dtype: np.dtype[Any]) -> bool:
    """True if arrays of the dtype hold numbers or booleans; numpy does not recognize bfloat16 and 8-bit floats."""
    return dtype.kind in "biuf" or dtype.name in _EXTENDED.values()


def scalar_of(dtype: np.dtype[Any]) -> ScalarType:
    """The element type of an array's dtype; unsigned integers are `ui*`, signed ones `i*`."""
    name = dtype.name
    for table in (_PLAIN, _EXTENDED):
        for scalar, numpy_name in table.items():
            if numpy_name == name and scalar != "index":
                return ScalarType(scalar)
    if dtype.kind in "iu":
        return ScalarType(f"{'ui' if dtype.kind == 'u' else 'i'}{8 * dtype.itemsize}")
    raise InvalidModel(f"arrays of {name} have no element type; convert them to float32 first")


def as_stored(array: Array, type: TensorType) -> Array:
    """A weight in its stored form: files hold bf16 and f16 as raw 16-bit integers, and bytes of either sign.

    Raises ValueError with a sentence when array and type do not fit.
    """
    dtype = numpy_dtype(type.storage)
    if type.shape is not None and array.shape != type.shape:
        raise ValueError(f"its array has shape {shown(array.shape)}, its type {shown(type.shape)}")
    if array.dtype == dtype:
        return array
    if (
        array.dtype.itemsize == dtype.itemsize
        and array.dtype.kind in "uiV"
        and (array.dtype.kind != "i" or dtype.kind in "ui")
    ):
        return array.view(dtype)
    raise ValueError(f"its array holds {array.dtype.name}, its type {type.storage}")


def shown(shape: tuple[int, ...] | None) -> str:
    """A shape as text for messages: `1x3x8x8`."""
    if shape is None:
        return "*"
    return "x".join("?" if extent < 0 else str(extent) for extent in shape) or "()"
