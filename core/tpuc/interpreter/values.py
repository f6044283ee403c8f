"""The types of a module's values, and conversions from stored to real numbers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tpuc.ir import Module, TensorType, Uniform, UniformPerAxis

Array: TypeAlias = npt.NDArray[Any]


def real_values(array: Array, type: TensorType) -> Array:
    """Real numbers of stored values: integers with a scale become floats."""
    element = type.element
    if isinstance(element, Uniform) and array.dtype.kind in "iu":
        return (array.astype(np.float64) - element.zero_point) * element.scale
    if isinstance(element, UniformPerAxis) and array.dtype.kind in "iu":
        shape = [-1 if axis == element.axis else 1 for axis in range(array.ndim)]
        points, scales = np.reshape(element.zero_points, shape), np.reshape(element.scales, shape)
        return (array.astype(np.float64) - points) * scales
    return array.astype(np.float64)


def types_of(module: Module) -> dict[str, TensorType]:
    """The type of every named value."""
    return {
        result.name: result.type
        for operation in module.walk()
        for result in operation.results
        if result.name and isinstance(result.type, TensorType)
    }
