"""Every op of a compiled network, evaluated on the very operands that the chip had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import (
    Constant,
    Module,
    NetworkInput,
    Node,
    NoneType,
    Operation,
    TensorType,
    Value,
    as_stored,
    numpy_dtype,
)

Array = NDArray[Any]


@dataclass(frozen=True)
class Computed:
    """A result of an op: what the chip found for its operands, and what the op evaluates to."""

    operation: Operation
    value: Value
    operands: Sequence[Array]
    found: Array
    wanted: Array


def results_of(module: Module, got: Mapping[str, Array]) -> Iterator[Computed]:
    """The results of all ops, `got` being every value by name as the chip stores it."""
    for operation in module.main.operations[:-1]:
        if isinstance(operation.op, (Constant, NetworkInput)) or isinstance(operation.results[0].type, NoneType):
            continue
        operands = [_operand(module, value, got) for value in operation.operands]
        results = operation.op.evaluate(Node.of(operation), operands)
        for value, wanted in zip(operation.results, results, strict=True):
            found = _of(value, got)
            yield Computed(operation, value, operands, found, wanted.reshape(found.shape))


def _operand(module: Module, value: Value, got: Mapping[str, Array]) -> Array:
    if isinstance(value.type, NoneType):
        return np.zeros(0, np.float32)
    if value.defining is not None and isinstance(value.defining.op, Constant):
        return as_stored(module.weights[value.name], value.tensor)
    return _of(value, got)


def _of(value: Value, got: Mapping[str, Array]) -> Array:
    """A value; of what is computed image by image only the whole batch is returned."""
    if value.name in got:
        return _as_typed(got[value.name], value.tensor)
    whole, _, image = value.name.rpartition("_image")
    size = value.tensor.size
    return _as_typed(got[whole].reshape(-1)[int(image) * size :][:size], value.tensor)


def _as_typed(array: Array, type_: TensorType) -> Array:
    """As the interpreter holds it; the vendor's runtime gives bf16 and unsigned bytes as their bits."""
    dtype = numpy_dtype(type_.storage)
    if array.dtype != dtype and array.dtype.itemsize == dtype.itemsize:
        array = array.view(dtype)
    return array.reshape(type_.dims)
