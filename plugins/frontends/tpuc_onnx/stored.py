"""Constants that DequantizeLinear makes from integers: keep the integers and their type."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from tpuc.api import F32, ElementType, ForeignNode, InvalidModel, ScalarType, Uniform, UniformPerAxis
from tpuc_importing.obstacles import place_of
from tpuc_ops.arrays import Array
from tpuc_ops.linear import integer_range

from tpuc_onnx.shapes import TypeTable

_STORAGES = {"int8": "i8", "uint8": "u8", "int4": "i8", "uint4": "u8", "int2": "i8", "uint2": "u8"}
"""Narrower integers are stored in bytes."""


@dataclass(frozen=True, eq=False)
class StoredConstant:
    """A constant as stored in the file: the integers of a quantized type."""

    name: str
    integers: Array
    element: ElementType


def stored_constant(node: ForeignNode, types: TypeTable) -> StoredConstant | None:
    """Return the operand of a DequantizeLinear of constants; None for single numbers, wide integers (biases), floats,
    and blocks. Raises InvalidModel for a scale that is not positive.
    """
    integers, scale, *rest = (types.constants[name] for name in node.inputs if name)
    if integers.size < 2 or integers.dtype.name not in _STORAGES or scale.ndim > 1:
        return None
    if not (np.isfinite(scale) & (scale > 0)).all():
        raise InvalidModel(
            f"{place_of(node)}: the scale of '{node.inputs[0]}' is not above 0 everywhere. Quantize the network again."
        )
    zero = rest[0].astype(np.int64).reshape(-1) if rest else np.zeros(scale.size, np.int64)
    element = _element(integers, scale.reshape(-1), zero, node.attributes.get("axis", 1))
    dtype = np.uint8 if integers.dtype.name.startswith("u") else np.int8
    return StoredConstant(node.inputs[0], integers.astype(dtype), element)


_SAME_ORDER = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")


def moved_constant(stored: StoredConstant, node: ForeignNode, dims: tuple[int, ...]) -> StoredConstant | None:
    """Return the integers of a constant of shape `dims` that a node makes from another one; None if it does more than
    move them, or if scales no longer belong to a dimension.
    """
    if node.domain or node.op_type not in (*_SAME_ORDER, "Transpose"):
        return None
    before, element = stored.integers.shape, stored.element
    order = node.attributes.get("perm", tuple(reversed(range(len(before)))))
    is_turned = node.op_type == "Transpose"
    integers = stored.integers.transpose(order) if is_turned else stored.integers.reshape(dims)
    if isinstance(element, UniformPerAxis):
        axis = order.index(element.axis) if is_turned else _same_place(before, dims, element.axis)
        if axis is None:
            return None
        element = replace(element, axis=axis)
    return StoredConstant(f"{node.outputs[0]}_stored", np.ascontiguousarray(integers), element)


def _same_place(before: tuple[int, ...], after: tuple[int, ...], axis: int) -> int | None:
    """Return the dimension of another shape that corresponds to dimension `axis` of this one."""
    places = (place for place, extent in enumerate(after) if extent == before[axis])
    return next((place for place in places if math.prod(after[:place]) == math.prod(before[:axis])), None)


def _element(integers: Array, scales: Array, zero_points: Array, axis: int) -> ElementType:
    kind = integers.dtype.name
    storage, bits = ScalarType(_STORAGES[kind]), int(kind.removeprefix("u").removeprefix("int"))
    bounds = integer_range(kind.upper()) if bits < 8 else (None, None)
    if scales.size == 1:
        return Uniform(storage, F32, float(scales[0]), int(zero_points[0]), *bounds)
    numbers = tuple(map(float, scales)), tuple(map(int, zero_points))
    return UniformPerAxis(storage, F32, axis % integers.ndim, *numbers, *bounds)
