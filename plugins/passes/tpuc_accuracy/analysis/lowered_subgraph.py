"""Find the TPU ops that compute a TOP op, the values that enter them, and the lowered filters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from tpuc.api import (
    Constant,
    Module,
    NoneType,
    Operation,
    ScalarType,
    TensorType,
    Uniform,
    UniformPerAxis,
    Value,
    as_stored,
)
from tpuc.api.evaluation import Array, real_values
from tpuc_ops import tpu
from tpuc_ops.quant.casts import parameters
from tpuc_quantize.simulation.grids import Grid, grid_of_uniform

_QUANTIZED = (Uniform, UniformPerAxis)
_F32_BITS = 32
_MOST_OPERATIONS = 16
"""Size limit of a subgraph: lowerings expand one op into fewer, so a longer search has lost its way."""


@dataclass(frozen=True)
class Subgraph:
    """The TPU ops that compute one value, in order, starting at values that the TOP op also reads (`entries` by
    name).
    """

    module: Module
    result: Value
    operations: tuple[Operation, ...]
    entries: Mapping[str, Value]

    def run(self, operands: Mapping[str, Array]) -> Array:
        """The real result from real entry values, which are stored as on the chip."""
        values: dict[Value, Array] = {}
        for name, value in self.entries.items():
            values[value] = _stored(operands[name], value.tensor)
        for operation in self.operations:
            arrays = [self._operand(operand, values) for operand in operation.operands]
            results = operation.op.evaluate(operation.node(), arrays)
            values.update(zip(operation.results, results, strict=True))
        return real(values[self.result], self.result.tensor)

    def _operand(self, value: Value, values: Mapping[Value, Array]) -> Array:
        if value in values:
            return values[value]
        if isinstance(value.type, NoneType) or value.defining is None:
            return np.zeros((0,), np.float32)
        return as_stored(self.module.weights[value.name], value.tensor)

    def grid(self, name: str) -> Grid | None:
        """The grid of an entry where it is used; None for floats."""
        entry = self.entries[name]
        casts = [op.result for op in self.operations if isinstance(op.op, tpu.Cast) and entry in op.operands]
        for value in (entry, *casts):
            if isinstance(value.tensor.element, _QUANTIZED):
                return grid_of_uniform(value.tensor.element)
        return None

    @property
    def result_grid(self) -> Grid | None:
        """The grid of the result, before a final cast to floats; None for floats."""
        last = self.operations[-1]
        for value in (self.result, *(last.operands[:1] if isinstance(last.op, tpu.Cast) else ())):
            if isinstance(value.tensor.element, _QUANTIZED):
                return grid_of_uniform(value.tensor.element)
        return None

    @property
    def narrow_float(self) -> str:
        """The type narrower than f32 that the op computes in: `f16`, `bf16`; empty for f32 and integers."""
        elements = [value.tensor.element for value in (*self.entries.values(), *self._results)]
        narrow = [one.name for one in elements if isinstance(one, ScalarType) and one.is_float and one.bits < _F32_BITS]
        return narrow[0] if narrow and not any(isinstance(one, _QUANTIZED) for one in elements) else ""

    @property
    def _results(self) -> list[Value]:
        return [operation.result for operation in self.operations if isinstance(operation.result.type, TensorType)]

    def filters(self) -> tuple[Array, Array | None] | None:
        """The real values of a product's int8 filters and int32 biases, or of filters in narrow floats; None where
        there are none.
        """
        for operation in self.operations:
            match operation.op:
                case (
                    tpu.Conv2D(multiplier=multipliers, rshift=shifts)
                    | tpu.Deconv(multiplier=multipliers, rshift=shifts)
                ):
                    axis = 0
                case tpu.MatMul(multipliers=multipliers, rshifts=shifts, right_transpose=transposed):
                    axis = 0 if transposed else 1
                case _:
                    continue
            source, result = operation.operands[0].tensor.element, operation.result.tensor.element
            weight = operation.operands[1].defining
            if weight is not None and isinstance(weight.op, Constant) and self.narrow_float:
                return self._operand(operation.operands[1], {}).astype(np.float32), None
            if not (isinstance(source, _QUANTIZED) and isinstance(result, _QUANTIZED)) or weight is None:
                return None
            if not multipliers or not isinstance(weight.op, Constant):
                return None
            stored = self._operand(operation.operands[1], {}).astype(np.float64)
            factors = np.array(multipliers, np.float64) / np.exp2(np.array(shifts, np.float64))
            of_source, of_result = (_scales(one, stored.shape[axis]) for one in (source, result))
            steps = np.resize(factors, stored.shape[axis]) * of_result / of_source
            shape = [1] * stored.ndim
            shape[axis] = -1
            bias = self._operand(operation.operands[2], {})
            others = tuple(place for place in range(stored.ndim) if place != axis)
            point = source.zero_point if isinstance(source, Uniform) else 0
            meant = bias.reshape(-1) + point * stored.sum(axis=others) if bias.size else None
            floats = None if meant is None else (meant * steps * of_source).astype(np.float32)
            return (stored * steps.reshape(shape)).astype(np.float32), floats
        return None


def _scales(element: Uniform | UniformPerAxis, channels: int) -> Array:
    """The scale of every output channel of a product; several may read one channel."""
    scales = np.asarray(element.scale if isinstance(element, Uniform) else element.scales)
    return np.repeat(scales, channels // scales.size)


def find_subgraph(
    module: Module, values: Mapping[str, Value], result: str, operands: Collection[str]
) -> Subgraph | None:
    """The TPU ops between `operands` and `result`; None when they read any other computed value."""
    target = values.get(result)
    if target is None or target.defining is None:
        return None
    found: list[Operation] = []
    entries: dict[str, Value] = {}
    stack = [target.defining]
    while stack:
        operation = stack.pop()
        if operation in found:
            continue
        found.append(operation)
        for value in operation.operands:
            producer = value.defining
            if value.name in operands and values.get(value.name) is value:
                entries[value.name] = value
            elif producer is None:
                return None
            elif not isinstance(producer.op, Constant) and not isinstance(value.type, NoneType):
                stack.append(producer)
    if len(found) > _MOST_OPERATIONS or set(entries) != set(operands):
        return None
    order = {operation: place for place, operation in enumerate(module.main.operations)}
    return Subgraph(module, target, tuple(sorted(found, key=lambda one: order[one])), entries)


def real(array: Array, type: TensorType) -> Array:
    """The real values of stored ones."""
    return real_values(array, type).astype(np.float32)


def _stored(array: Array, type: TensorType) -> Array:
    if not isinstance(type.element, _QUANTIZED):
        return array.astype(np.float32)
    grid = grid_of_uniform(type.element)
    scales, points = parameters(type)
    integers = np.rint(array.astype(np.float64) / scales) + points
    stored = np.clip(integers, grid.low, grid.high)
    return stored.astype(np.int8 if grid.low < 0 else np.uint8)
