"""Evaluate operations of `tf`, including functional control flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from tpuc.api import Block, Module, Operation, Value
from tpuc_ops.arrays import Array
from tpuc_ops.regions import run_block, run_function

from tpuc_tensorflow.dialects.constants import constant_array
from tpuc_tensorflow.evaluation.facts import fact
from tpuc_tensorflow.evaluation.kernels import KERNELS

MOST_STEPS = 1 << 20
"""A loop with more steps is considered infinite."""


def run_operation(operation: Operation, values: Mapping[Value, Array], module: Module) -> Sequence[Array]:
    """Return the results of an operation of `tf`."""
    array = constant_array(operation, module)
    if array is not None:
        return [array]
    name = operation.op.name.removeprefix("tf.")
    structured = _STRUCTURED.get(name)
    if structured is not None:
        return structured(operation, values, module)
    kernel = KERNELS.get(name)
    if kernel is None:
        raise NotImplementedError(f"tf.{name} has no evaluation")
    with np.errstate(all="ignore"):
        return kernel(operation, [values[value] for value in operation.operands])


def _if(operation: Operation, values: Mapping[Value, Array], module: Module) -> Sequence[Array]:
    """Evaluate an If: three functions of the same operands, or a condition followed by the operands of two
    functions.
    """
    operands = [values[value] for value in operation.operands]
    condition = fact(operation, "cond")
    if condition is not None:
        holds = bool(np.all(run_function(module, condition, operands)[0]))
        return run_function(module, fact(operation, "true_branch" if holds else "false_branch"), operands)
    holds = _truth(operands[0])
    return run_function(module, fact(operation, "then_branch" if holds else "else_branch"), operands[1:])


def _while(operation: Operation, values: Mapping[Value, Array], module: Module) -> Sequence[Array]:
    condition, body = fact(operation, "cond"), fact(operation, "body")
    return _repeat(
        [values[value] for value in operation.operands],
        lambda carried: run_function(module, condition, carried),
        lambda carried: run_function(module, body, carried),
    )


def _call(operation: Operation, values: Mapping[Value, Array], module: Module) -> Sequence[Array]:
    return run_function(module, fact(operation, "f"), [values[value] for value in operation.operands])


def _case(operation: Operation, values: Mapping[Value, Array], module: Module) -> Sequence[Array]:
    """Evaluate a Case; an index out of range takes the last branch."""
    index, *operands = (values[value] for value in operation.operands)
    branches = fact(operation, "branches")
    chosen = int(index) if 0 <= int(index) < len(branches) else len(branches) - 1
    return run_function(module, branches[chosen], operands)


def _if_region(operation: Operation, values: Mapping[Value, Array], module: Module) -> Sequence[Array]:
    region = operation.regions[0 if _truth(values[operation.operands[0]]) else 1]
    return run_block(region.blocks[0], values, module)


def _while_region(operation: Operation, values: Mapping[Value, Array], module: Module) -> Sequence[Array]:
    condition, body = (region.blocks[0] for region in operation.regions)

    def run(block: Block, carried: Sequence[Array]) -> list[Array]:
        return run_block(block, {**values, **dict(zip(block.arguments, carried, strict=True))}, module)

    operands = [values[value] for value in operation.operands]
    return _repeat(operands, lambda carried: run(condition, carried), lambda carried: run(body, carried))


def _repeat(
    carried: Sequence[Array],
    goes_on: Callable[[Sequence[Array]], Sequence[Array]],
    step: Callable[[Sequence[Array]], Sequence[Array]],
) -> Sequence[Array]:
    for _ in range(MOST_STEPS):
        if not _truth(goes_on(carried)[0]):
            return carried
        carried = step(carried)
    raise ValueError(f"its loop runs more than {MOST_STEPS} steps")


def _truth(array: Array) -> bool:
    """Return the truth value of a condition: nonzero for a single element, nonempty otherwise."""
    return bool(np.asarray(array).reshape(())) if np.size(array) == 1 else np.size(array) > 0


_STRUCTURED: Mapping[str, Callable[[Operation, Mapping[Value, Array], Module], Sequence[Array]]] = {
    "Case": _case,
    "If": _if,
    "IfRegion": _if_region,
    "PartitionedCall": _call,
    "StatefulPartitionedCall": _call,
    "StatelessCase": _case,
    "StatelessIf": _if,
    "StatelessWhile": _while,
    "While": _while,
    "WhileRegion": _while_region,
}
