"""Compares a compiled network value by value: each op is evaluated on the very operands that the chip had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from tpuc.api import ABSENT, Constant, Module, NetworkInput, Node, NoneType, Operation, TensorType, as_stored

Array = NDArray[Any]

BF16_BOUND = 2.0**-7
"""Of a tensor's largest value, in whose binade it is one unit of bf16's last place: order of sums and tables are the
chip's own."""
ORDERED = ("tpu.Conv2D", "tpu.Deconv", "tpu.MatMul", "tpu.Pool2D", "tpu.Active", "tpu.Div", "tpu.Softmax")
"""Ops of which floats are not exact."""


def check_steps(module: Module, got: Mapping[str, Array]) -> tuple[int, int]:
    """Assert that every op gave what it evaluates to; returns how many integer and float tensors were compared."""
    integers = floats = 0
    for operation in module.main.operations[:-1]:
        if isinstance(operation.op, (Constant, NetworkInput)) or isinstance(operation.results[0].type, NoneType):
            continue
        operands = [_operand(module, value, got) for value in operation.operands]
        (wanted,) = operation.op.evaluate(Node.of(operation), operands)
        found = _as_typed(got[operation.name], operation.result.tensor)
        if wanted.dtype.kind in "iu":
            integers += 1
            assert np.array_equal(found, wanted), f"{operation.name} ({operation.op.name})"
        else:
            floats += 1
            _check_floats(operation, found.astype(np.float32), wanted.astype(np.float32))
    return integers, floats


def _operand(module: Module, value: Any, got: Mapping[str, Array]) -> Array:
    if isinstance(value.type, NoneType) or value.type is ABSENT:
        return np.zeros(0, np.float32)
    if value.defining is not None and isinstance(value.defining.op, Constant):
        return as_stored(module.weights[value.name], value.tensor)
    return _as_typed(got[value.name], value.tensor)


def _as_typed(array: Array, type_: TensorType) -> Array:
    """As the interpreter holds it; the vendor's runtime gives bf16 as bits."""
    if type_.storage.name == "bf16" and array.dtype == np.uint16:
        array = array.view(ml_dtypes.bfloat16)
    return array.reshape(type_.dims)


def _check_floats(operation: Operation, found: Array, wanted: Array) -> None:
    where = f"{operation.name} ({operation.op.name})"
    if operation.op.name in ORDERED:
        finite = np.isfinite(wanted)
        assert np.array_equal(found[~finite], wanted[~finite], equal_nan=True), where
        largest = float(np.abs(wanted[finite]).max(initial=0.0))
        assert float(np.abs(found - wanted)[finite].max(initial=0.0)) <= BF16_BOUND * largest, where
    else:
        assert np.array_equal(found, wanted), where
