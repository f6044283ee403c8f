"""The foreign graph in plain Python, with every offset of the file resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from tpuc.api import F32, ElementType, ForeignNode, ScalarType, Uniform, UniformPerAxis
from tpuc_ops.arrays import Array

Shape: TypeAlias = tuple[int, ...]

MOST_ELEMENTS = 1 << 28
"""Maximum number of elements of a tensor: a larger one means a damaged file, and would fill the memory."""

QUANTIZED_STORAGE = {"INT8": "i8", "UINT8": "u8", "INT16": "i16", "INT32": "i32", "INT4": "i8"}
"""Spelling of the file's types in uniform types."""


@dataclass(frozen=True)
class Quantization:
    """`(q - zero_point) * scale`, one of each or one per index of `axis`."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int

    @property
    def is_per_axis(self) -> bool:
        """True if every index of the axis has its own scale."""
        return len(self.scales) > 1


@dataclass(frozen=True)
class TensorEntry:
    """A tensor of the file; `data` is set if it is constant. `signature` has -1 for open extents.

    With `is_state`, it is an input and an output of the network, in floats whatever its kind.
    """

    name: str
    kind: str  # the file's name of the element type: FLOAT32, INT8, ...
    shape: Shape
    signature: Shape
    quantization: Quantization | None
    data: Array | None = None
    is_variable: bool = False
    is_state: bool = False

    @property
    def is_quantized(self) -> bool:
        """True if it holds scaled integers. Sums of products (int32) do not count."""
        integers = self.kind in ("INT8", "UINT8", "INT16", "INT4") and not self.is_state
        return self.quantization is not None and integers

    @property
    def element(self) -> ElementType:
        """The element type of its value in TOP: quantized as in the file, otherwise f32."""
        if not self.is_quantized:
            return F32
        assert self.quantization is not None
        return element_of(self.kind, self.quantization, self.quantization.axis)


@dataclass(frozen=True)
class Graph:
    """A subgraph: nodes in the file's order, tensors by name, names of inputs and outputs.

    `subgraphs`: those that control flow of the first one may run, by index in the file. `states` pairs inputs with the
    outputs that they are in the next run.
    """

    source: str
    name: str
    tensors: Mapping[str, TensorEntry]
    nodes: tuple[ForeignNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    subgraphs: Mapping[int, Graph] = field(default_factory=dict[int, "Graph"])
    states: tuple[tuple[str, str], ...] = ()


def element_of(kind: str, quantization: Quantization, axis: int) -> ElementType:
    """Return the quantized element type; several scales are along `axis`."""
    storage = ScalarType(QUANTIZED_STORAGE[kind])
    if quantization.is_per_axis:
        return UniformPerAxis(storage, F32, axis, quantization.scales, quantization.zero_points)
    return Uniform(storage, F32, quantization.scales[0], quantization.zero_points[0])


def real_values(array: Array, quantization: Quantization) -> Array:
    """Dequantize integers to float32."""
    shape = [1] * array.ndim
    if quantization.is_per_axis:
        shape[quantization.axis] = -1
    scale = np.asarray(quantization.scales, np.float32).reshape(shape if quantization.is_per_axis else ())
    zero = np.asarray(quantization.zero_points, np.int64).reshape(shape if quantization.is_per_axis else ())
    return ((array.astype(np.int64) - zero).astype(np.float32) * scale).astype(np.float32)
