"""Find structures whose values need more than 8 bits: states of recurrent cells, and sums of squares."""

from __future__ import annotations

from collections.abc import Iterator

from tpuc.api import Module, Operation, Value
from tpuc_ops import top
from tpuc_ops.quantized import Product
from tpuc_ops.traits import StridedView, states

_GATES = (top.Sigmoid, top.HardSigmoid)
"""Ops that scale a state or a candidate. This and `_INSIDE` are the grammar of recurrent cells, not facts about the
ops.
"""
_INSIDE = (*_GATES, top.Tanh, top.Add, top.AddConst, top.Mul, top.SubConst)
"""Ops between the products of a cell."""


def wide_structures(module: Module) -> frozenset[Operation]:
    """The ops inside recurrent cells, those from the squares of a spectrum to its magnitudes, and the moves before all
    of these.
    """
    roots = (one for one in module.main.operations if isinstance(one.op, top.Sqrt))
    found = recurrent_cells(module).union(*map(_magnitude, roots))
    return found.union(*(moves_of(operand) for one in found for operand in one.operands))


def recurrent_cells(module: Module) -> frozenset[Operation]:
    """The ops between the products of recurrent cells, which carry their states from step to step."""
    found = set[Operation]()
    for operation in module.main.operations:
        if _is_state(operation):
            _add_cell(operation, found)
    return frozenset(found)


def _is_state(operation: Operation) -> bool:
    """True for the sum of an old state and a candidate, a tanh, each scaled by a gate."""
    if not isinstance(operation.op, top.Add):
        return False
    parts = [producer_of(operand) for operand in operation.operands]
    return all(map(_is_gated, parts)) and any(_has(part, top.Tanh) for part in parts if part is not None)


def _is_gated(operation: Operation | None) -> bool:
    return operation is not None and isinstance(operation.op, top.Mul) and any(map(_is_gate, operation.operands))


def _is_gate(value: Value) -> bool:
    producer = producer_of(value)
    if producer is not None and isinstance(producer.op, top.SubConst):  # one minus a gate
        producer = producer_of(producer.operands[0])
    return producer is not None and isinstance(producer.op, _GATES)


def _has(operation: Operation, kind: type) -> bool:
    return any(isinstance(one.op, kind) for one in map(producer_of, operation.operands) if one is not None)


def _add_cell(state: Operation, found: set[Operation]) -> None:
    """Add the ops of the cell around the sum that makes a state: back to the products, and on to its output."""
    stack = [state]
    for user in users_of(state):
        outputs = [user, *users_of(user)] if isinstance(user.op, top.Tanh) else [user]
        stack += [one for one in outputs if isinstance(one.op, top.Tanh) or _is_gated(one)]
    while stack:
        operation = stack.pop()
        if operation not in found:
            found.add(operation)
            stack += filter(None, map(_inside, operation.operands))


def _inside(value: Value) -> Operation | None:
    """The op inside a cell that computes a value; behind the product of a state, the one that resets the state."""
    producer = producer_of(value)
    if producer is not None and isinstance(producer.op, Product):
        reset = producer_of(producer.operands[0])
        return reset if _is_gated(reset) else None
    return producer if producer is not None and isinstance(producer.op, _INSIDE) else None


def _magnitude(root: Operation) -> list[Operation]:
    """A root, the sum before it, and the two squares that it adds; nothing for other roots."""
    total = producer_of(root.operands[0])
    if total is None or not isinstance(total.op, top.Add):
        return []
    squares = [one for one in map(producer_of, total.operands) if one is not None and _is_square(one)]
    return [root, total, *squares] if len(squares) == 2 else []


def _is_square(operation: Operation) -> bool:
    op = operation.op
    if isinstance(op, top.Mul):
        return operation.operands[0] is operation.operands[1]
    return isinstance(op, top.Pow) and op.exponent == 2.0


def moves_of(value: Value) -> Iterator[Operation]:
    """The ops that move a value after it was computed, the last one first."""
    producer = value.defining
    while producer is not None and producer.operands and states(producer.op, StridedView):
        yield producer
        producer = producer.operands[0].defining


def producer_of(value: Value) -> Operation | None:
    """The op that computes a value, before it was moved."""
    *_, first = [value, *(move.operands[0] for move in moves_of(value))]
    return first.defining


def users_of(operation: Operation) -> Iterator[Operation]:
    """The ops that read a result, directly or after moves."""
    for result in operation.results:
        for user in result.users:
            if states(user.op, StridedView):
                yield from users_of(user)
            else:
                yield user
