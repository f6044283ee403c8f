"""Run blocks and functions in program order, for ops with regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tpuc.api import Block, Call, Constant, Function, Module, Operation, StructuredOp, TensorType, Value, as_stored

from tpuc_ops.arrays import Array

_ABSENT: Array = np.zeros((0,), np.float32)


def function_of(module: Module, name: str) -> Function:
    """Return a function of the module; raises ValueError if there is none of this name."""
    found = next((function for function in module.functions if function.name == name), None)
    if found is None:
        raise ValueError(f"there is no function '{name}'")
    return found


def run_function(module: Module, name: str, arrays: Sequence[Array]) -> list[Array]:
    """Return the results of a function of the module."""
    function = function_of(module, name)
    if len(arrays) != len(function.inputs):
        raise ValueError(f"function '{name}' takes {len(function.inputs)} operands, and {len(arrays)} are given")
    return run_block(function.body, dict(zip(function.inputs, arrays, strict=True)), module)


def run_block(block: Block, values: Mapping[Value, Array], module: Module) -> list[Array]:
    """Return the operands of a block's last operation. `values`: values from outside the block, and its arguments."""
    known = dict(values)
    *operations, last = block.operations
    for operation in operations:
        known.update(zip(operation.results, _results(operation, known, module), strict=True))
    return [known[value] for value in last.operands]


def _results(operation: Operation, values: Mapping[Value, Array], module: Module) -> Sequence[Array]:
    op = operation.op
    if isinstance(op, StructuredOp):
        return op.run(operation, values, module)
    operands = [values.get(value, _ABSENT) for value in operation.operands]
    if isinstance(op, Call):
        return run_function(module, op.callee, operands)
    if isinstance(op, Constant) and isinstance(operation.result.type, TensorType):
        return [as_stored(module.weights[operation.name], operation.result.type)]
    return op.evaluate(operation.node(), operands)
