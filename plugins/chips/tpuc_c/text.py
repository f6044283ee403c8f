"""C fragments: types, literals, and loops over tensors with arbitrary strides."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tpuc.api import ScalarType, numpy_dtype

C_TYPES: Mapping[str, str] = {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "float32": "float",
}
"""C types by numpy type name."""
Strides = Sequence[int]


def c_type(storage: ScalarType) -> str | None:
    """The C type of stored values; None if there is none."""
    return C_TYPES.get(numpy_dtype(storage).name)


def integer(value: int) -> str:
    """An integer literal of at most 64 bits."""
    if value == -(1 << 31):
        return "INT32_MIN"
    return f"{value}" if abs(value) < 1 << 31 else f"INT64_C({value})"


def number(value: float) -> str:
    """A float32 literal without loss."""
    rounded = float(np.float32(value))
    if math.isnan(rounded):
        return "NAN"
    if math.isinf(rounded):
        return "INFINITY" if rounded > 0 else "-INFINITY"
    return f"{rounded.hex()}f"


def loops(
    dims: Sequence[int], strides: Sequence[Strides], statement: Callable[[Sequence[str]], str], index: str = "i"
) -> str:
    """Nested loops over `dims`. `statement` receives the element index in each tensor, computed with `strides`.

    The first tensor determines the loop order; dimensions that are contiguous in all tensors are merged.
    """
    axes = [(extent, [one[axis] for one in strides]) for axis, extent in enumerate(dims) if extent > 1]
    axes.sort(key=lambda axis: -axis[1][0])
    merged: list[tuple[int, list[int]]] = []
    for extent, steps in axes:
        if merged and all(outer == inner * extent for outer, inner in zip(merged[-1][1], steps, strict=True)):
            merged[-1] = (merged[-1][0] * extent, steps)
        else:
            merged.append((extent, steps))
    names = [f"{index}{number}" for number in range(len(merged))]
    heads = [
        f"for (int32_t {one} = 0; {one} < {extent}; ++{one}) " for one, (extent, _) in zip(names, merged, strict=True)
    ]
    places = [
        _place([(one, steps[which]) for one, (_, steps) in zip(names, merged, strict=True)])
        for which in range(len(strides))
    ]
    return f"{''.join(heads)}{{\n{statement(places)}\n}}\n"


def _place(terms: Sequence[tuple[str, int]]) -> str:
    parts = [name if step == 1 else f"{name} * {step}" for name, step in terms if step]
    return " + ".join(parts) or "0"


def broadcast_strides(dims: Sequence[int], strides: Strides, result: Sequence[int]) -> tuple[int, ...]:
    """Strides of an operand along the result's dimensions: 0 where it broadcasts."""
    missing = len(result) - len(dims)
    return (*(0,) * missing, *(0 if extent == 1 else step for extent, step in zip(dims, strides, strict=True)))


def row_strides(dims: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense row-major tensor."""
    return tuple(math.prod(dims[axis + 1 :]) for axis in range(len(dims)))


def addresses(dims: Sequence[int], strides: Strides) -> npt.NDArray[Any]:
    """The offset of every element, in row-major order of the tensor."""
    total: npt.NDArray[Any] = np.zeros((1,) * len(dims), np.int64)
    for axis, (extent, step) in enumerate(zip(dims, strides, strict=True)):
        shape = [1] * len(dims)
        shape[axis] = extent
        total = total + np.arange(extent, dtype=np.int64).reshape(shape) * step
    return total.reshape(-1)


def fields(values: Mapping[str, object]) -> str:
    """Designated initializers of a struct."""
    return ", ".join(f".{name} = {value}" for name, value in values.items())
