"""Find ops that compute integers used as indices or in comparisons, which a step of eight bits would change."""

from __future__ import annotations

from tpuc.api import Constant, Elementwise, Module, NetworkInput, Operation
from tpuc_ops import top
from tpuc_ops.top.compare import COMPARISONS
from tpuc_ops.traits import Concatenates, ReadsIndices, Repeats, StridedView, states


def exact_numbers(module: Module) -> frozenset[Operation]:
    """Element-wise, moving, counting and searching ops with results used only as indices or in comparisons, and the
    comparisons of such results.
    """
    found: set[Operation] = set()
    for operation in reversed(module.main.operations):
        if isinstance(operation.op, (Constant, NetworkInput)) or not _keeps_numbers(operation):
            continue
        uses = [use for result in operation.results for use in result.uses]
        if uses and all(user in found or _is_exact(user, index) for user, index in uses):
            found.add(operation)
    found.update(one for one in module.main.operations if _compares(one) and _is_of_inputs(one, found))
    return frozenset(found)


def _keeps_numbers(operation: Operation) -> bool:
    counts = isinstance(operation.op, (Elementwise, top.CumSum, top.Arg))
    return counts or states(operation.op, StridedView, Repeats, Concatenates)


def _is_exact(user: Operation, index: int) -> bool:
    return (isinstance(user.op, ReadsIndices) and index == 1) or _compares(user)


def _compares(operation: Operation) -> bool:
    op = operation.op
    return isinstance(op, (top.Compare, top.CompareConst)) and op.mode in COMPARISONS


def _is_of_inputs(operation: Operation, found: set[Operation]) -> bool:
    """True if a comparison reads only inputs, constants and such numbers."""
    producers = [operand.defining for operand in operation.operands if operand.defining is not None]
    return all(one in found or isinstance(one.op, (Constant, NetworkInput)) for one in producers)
