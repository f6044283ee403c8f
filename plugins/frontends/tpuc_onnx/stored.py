"""Constants that a DequantizeLinear makes of integers: the integers and their type are kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import F32, ElementType, ForeignNode, InvalidModel, ScalarType, Uniform, UniformPerAxis
from tpuc_importing.obstacles import place_of
from tpuc_ops.arrays import Array

from tpuc_onnx.shapes import TypeTable

_STORAGES = {"int8": "i8", "uint8": "u8", "int4": "i8", "uint4": "u8", "int2": "i8", "uint2": "u8"}
"""Narrower integers are stored in bytes."""


@dataclass(frozen=True, eq=False)
class StoredConstant:
    """A constant as the file stores it: under its name the integers of a quantised type."""

    name: str
    integers: Array
    element: ElementType


def stored_constant(node: ForeignNode, types: TypeTable) -> StoredConstant | None:
    """What a DequantizeLinear of constants reads; None for single numbers, wide integers (those of a bias), floats and
    blocks. Raises InvalidModel for a scale that is not above 0.
    """
    integers, scale, *rest = (types.constants[name] for name in node.inputs if name)
    if integers.size < 2 or integers.dtype.name not in _STORAGES or scale.ndim > 1:
        return None
    if not (np.isfinite(scale) & (scale > 0)).all():
        raise InvalidModel(
            f"{place_of(node)}: the scale of '{node.inputs[0]}' is not above 0 everywhere. Quantise the network again."
        )
    zero = rest[0].astype(np.int64).reshape(-1) if rest else np.zeros(scale.size, np.int64)
    element = _element(integers, scale.reshape(-1), zero, node.attributes.get("axis", 1))
    dtype = np.uint8 if integers.dtype.name.startswith("u") else np.int8
    return StoredConstant(node.inputs[0], integers.astype(dtype), element)


def _element(integers: Array, scales: Array, zero_points: Array, axis: int) -> ElementType:
    kind = integers.dtype.name
    storage, bits = ScalarType(_STORAGES[kind]), int(kind.removeprefix("u").removeprefix("int"))
    bounds: tuple[int | None, int | None] = (None, None)
    if bits < 8:
        bounds = (0, (1 << bits) - 1) if kind.startswith("u") else (-(1 << bits - 1), (1 << bits - 1) - 1)
    if scales.size == 1:
        return Uniform(storage, F32, float(scales[0]), int(zero_points[0]), *bounds)
    numbers = tuple(map(float, scales)), tuple(map(int, zero_points))
    return UniformPerAxis(storage, F32, axis % integers.ndim, *numbers, *bounds)
