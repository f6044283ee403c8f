"""Helpers of several patterns: constants, new names, and removing an operation."""

from __future__ import annotations

import numpy as np
from tpuc.api import Constant, Module, NetworkInput, Operation, Pattern, Return, Rewriter, TensorType, Value, free_name
from tpuc_ops import top
from tpuc_ops.arrays import Array


class Names:
    """The names of all values of a module, to keep new ones unique."""

    def __init__(self, module: Module) -> None:
        self._taken = {value.name for operation in module.walk() for value in operation.results}
        self._taken |= module.weights.names()

    def new(self, wanted: str) -> str:
        """`wanted`, with a number appended when it is taken."""
        name = free_name(wanted, self._taken.__contains__)
        self._taken.add(name)
        return name


def new_weight(rewriter: Rewriter, names: Names, wanted: str, array: Array) -> Value:
    """A new float32 constant before the operation that is being rewritten."""
    return rewriter.weight(names.new(wanted), np.ascontiguousarray(array, np.float32))


def sole_producer(operation: Operation, index: int = 0) -> Operation | None:
    """The op that computes an operand without other readers; None otherwise, and for arguments."""
    value = operation.operands[index]
    return value.defining if len(value.uses) == 1 else None


def behind_moves(operation: Operation, index: int = 0) -> tuple[Operation | None, list[Operation]]:
    """The sole producer of an operand before reshapes and permutations without other readers, and those, the last one
    first.
    """
    moves: list[Operation] = []
    producer = sole_producer(operation, index)
    while producer is not None and isinstance(producer.op, (top.Reshape, top.Flatten, top.Permute)):
        moves.append(producer)
        producer = sole_producer(producer)
    return producer, moves


def without_reshapes(value: Value) -> Value:
    """The value before reshapes."""
    producer = value.defining
    while producer is not None and isinstance(producer.op, top.Reshape):
        value = producer.operands[0]
        producer = value.defining
    return value


def is_output(value: Value) -> bool:
    """True if the function returns it."""
    return any(isinstance(user.op, Return) for user, _ in value.uses)


def bypass(operation: Operation, rewriter: Rewriter) -> bool:
    """Remove an operation that only passes on its operand; an output's name moves to the op that now computes it."""
    value = operation.operands[0]
    if is_output(operation.result):
        producer = value.defining
        if producer is None or len(producer.results) > 1 or is_output(value):
            return False
        if isinstance(producer.op, (Constant, NetworkInput)):
            return False
        rewriter.change(producer, producer.op, operation.location)
    rewriter.replace(operation, value)
    return True


class FloatOnly(Pattern):
    """Applies another pattern only where no operand and no result is quantized: integers round at every op, so fusing
    two of them changes the network.
    """

    def __init__(self, inner: Pattern) -> None:
        self._inner = inner
        self.matches = inner.matches  # pyright: ignore[reportAttributeAccessIssue]

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        values = [*operation.operands, *operation.results]
        if any(isinstance(value.type, TensorType) and value.type.is_quantized for value in values):
            return False
        return self._inner.rewrite(operation, rewriter)


def insert_before(anchor: Operation, operation: Operation) -> Value:
    """Insert an operation before another one and return its result."""
    assert anchor.block is not None
    return anchor.block.insert_before(anchor, operation).result
