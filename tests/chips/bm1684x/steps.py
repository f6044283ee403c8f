"""Compares a compiled network value by value: each op is evaluated on the very operands that the chip had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
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
from tpuc.testing.kernel_conformance import FLOAT_BOUNDS, float_error

Array = NDArray[Any]

SEVERAL_ROUNDINGS = frozenset(
    f"tpu.{name}"
    for name in (
        "Active",
        "Conv2D",
        "Deconv",
        "Div",
        "MatMul",
        "Pool2D",
        "RecurrentSteps",
        "Reduce",
        "Softmax",
        "LayerNorm",
    )
)
"""Ops whose float results depend on an order of sums or on a series; all others are exact."""


def check_steps(module: Module, got: Mapping[str, Array]) -> Counter[str]:
    """Assert that every op gave what it evaluates to; returns how many tensors of each dtype were compared."""
    counts: Counter[str] = Counter()
    for operation in module.main.operations[:-1]:
        if isinstance(operation.op, (Constant, NetworkInput)) or isinstance(operation.results[0].type, NoneType):
            continue
        operands = [_operand(module, value, got) for value in operation.operands]
        results = operation.op.evaluate(Node.of(operation), operands)
        for value, wanted in zip(operation.results, results, strict=True):
            _check(operation, _as_typed(got[value.name], value.tensor), wanted.reshape(value.tensor.dims))
            counts[wanted.dtype.name] += 1
    return counts


def _operand(module: Module, value: Value, got: Mapping[str, Array]) -> Array:
    if isinstance(value.type, NoneType):
        return np.zeros(0, np.float32)
    if value.defining is not None and isinstance(value.defining.op, Constant):
        return as_stored(module.weights[value.name], value.tensor)
    return _as_typed(got[value.name], value.tensor)


def _as_typed(array: Array, type_: TensorType) -> Array:
    """As the interpreter holds it; the vendor's runtime gives bf16 as bits."""
    dtype = numpy_dtype(type_.storage)
    if array.dtype != dtype and array.dtype.itemsize == dtype.itemsize:
        array = array.view(dtype)
    return array.reshape(type_.dims)


def _check(operation: Operation, found: Array, wanted: Array) -> None:
    where = f"{operation.name} ({operation.op.name})"
    assert found.dtype == wanted.dtype, where
    if wanted.dtype.kind in "iu" or operation.op.name not in SEVERAL_ROUNDINGS:
        assert np.array_equal(found, wanted, equal_nan=wanted.dtype.kind not in "iu"), where
    else:
        error = float_error(found, wanted)
        assert error <= FLOAT_BOUNDS[wanted.dtype.name], f"{where}: {error:.3g} of its range"
