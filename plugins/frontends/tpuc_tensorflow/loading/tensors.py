"""Convert tensors and attributes of messages to arrays and attributes of the IR."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tpuc.api import (
    DYNAMIC,
    ArrayAttr,
    Attribute,
    BoolAttr,
    ElementType,
    FloatAttr,
    IntegerAttr,
    ScalarType,
    StringAttr,
    SymbolAttr,
    TensorType,
    TypeAttr,
    UnitAttr,
    numpy_dtype,
)
from tpuc_ops.arrays import Array

from tpuc_tensorflow.dialects.constants import dense_attribute
from tpuc_tensorflow.dialects.types import element_of

MOST_ELEMENTS = 1 << 29
"""Maximum number of elements of a tensor in a file: more means a damaged shape."""

_LISTS: Mapping[str, str] = {
    **dict.fromkeys(("i8", "i16", "i32", "ui8", "ui16"), "int_val"),
    **dict.fromkeys(("f16", "bf16"), "half_val"),
    "f32": "float_val",
    "f64": "double_val",
    "i1": "bool_val",
    "i64": "int64_val",
    "ui32": "uint32_val",
    "ui64": "uint64_val",
}
"""The field that holds the numbers of a type if they are not in one block of bytes."""


def shape_of(message: Any) -> tuple[int, ...] | None:
    """Return a shape with DYNAMIC for open extents; None if the rank is open."""
    if message.unknown_rank:
        return None
    return tuple(dim.size if dim.size >= 0 else DYNAMIC for dim in message.dim)


def array_of(tensor: Any) -> Array:
    """Return the array of a tensor; a short list repeats its last number. Raises ValueError for a damaged one."""
    shape, element = shape_of(tensor.tensor_shape), element_of(tensor.dtype)
    if shape is None or DYNAMIC in shape:
        raise ValueError("its shape is open")
    count = math.prod(shape)
    if count > MOST_ELEMENTS:
        raise ValueError(f"it has {count} elements")
    if not isinstance(element, ScalarType):
        if tensor.dtype != 7:
            raise ValueError(f"its elements have data type {tensor.dtype}, which is not supported")
        return _filled(np.array([*tensor.string_val], object), count).reshape(shape)
    dtype = numpy_dtype(element)
    if tensor.tensor_content:
        if len(tensor.tensor_content) != count * dtype.itemsize:
            raise ValueError(f"{len(tensor.tensor_content)} bytes are not {count} elements of type {element}")
        return np.frombuffer(tensor.tensor_content, dtype).reshape(shape)
    numbers: Any = getattr(tensor, _LISTS[element.name])
    if element.name in ("f16", "bf16"):
        array = np.array(numbers, np.int64).astype(np.uint16).view(dtype)
    else:
        array = np.array(numbers).astype(dtype) if len(numbers) else np.zeros(0, dtype)
    return _filled(array, count).reshape(shape)


def _filled(array: Array, count: int) -> Array:
    if array.size > count:
        raise ValueError(f"{array.size} numbers exceed {count} elements")
    if array.size == count:
        return array
    if not array.size:
        return np.zeros(count, array.dtype)
    return np.concatenate([array, np.full(count - array.size, array[-1], array.dtype)])


def type_attribute(element: ElementType) -> TypeAttr:
    """Return an element type as an attribute; a non-scalar type is wrapped in a tensor."""
    return TypeAttr(element if isinstance(element, ScalarType) else TensorType(None, element))


def _shape_attribute(message: Any) -> Attribute:
    shape = shape_of(message)
    return UnitAttr() if shape is None else ArrayAttr(tuple(IntegerAttr(extent) for extent in shape))


def _integer(value: Any) -> Attribute:
    return IntegerAttr(int(value))


def _float(value: Any) -> Attribute:
    return FloatAttr(float(value), ScalarType("f32"))


def _bool(value: Any) -> Attribute:
    return BoolAttr(bool(value))


def _text(value: Any) -> Attribute:
    return StringAttr(value.decode("utf-8", "surrogateescape"))


def _type(value: Any) -> Attribute:
    return type_attribute(element_of(value)) if value else UnitAttr()


def _function(value: Any) -> Attribute:
    if not isinstance(value.name, str):
        raise ValueError(f"the name {value.name!r} is not text")
    return SymbolAttr(value.name)


def _tensor(value: Any) -> Attribute:
    return dense_attribute(array_of(value))


_READERS: Mapping[str, Callable[[Any], Attribute]] = {
    "s": _text,
    "i": _integer,
    "f": _float,
    "b": _bool,
    "type": _type,
    "shape": _shape_attribute,
    "tensor": _tensor,
    "func": _function,
}


def attribute_of(message: Any) -> Attribute:
    """Convert an attribute of a node. Raises ValueError for a damaged one."""
    for field, read in _READERS.items():
        if message.HasField(field):
            return read(getattr(message, field))
    if message.HasField("list"):
        for field, read in _READERS.items():
            items = getattr(message.list, field)
            if len(items):
                return ArrayAttr(tuple(map(read, items)))
        return ArrayAttr(())
    return UnitAttr()
