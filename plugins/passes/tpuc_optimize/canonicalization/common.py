"""What several patterns need: constants of the graph, names for new ones, and taking an operation out."""

from __future__ import annotations

import numpy as np
from tpuc.api import Constant, Module, NetworkInput, Operation, Pattern, Return, Rewriter, TensorType, Value, free_name
from tpuc_ops.arrays import Array


class Names:
    """Names of all values of a module, so that new ones are new."""

    def __init__(self, module: Module) -> None:
        self._taken = {value.name for operation in module.walk() for value in operation.results}
        self._taken |= module.weights.names()

    def new(self, wanted: str) -> str:
        """`wanted`, with a number when it is taken."""
        name = free_name(wanted, self._taken.__contains__)
        self._taken.add(name)
        return name


def new_weight(rewriter: Rewriter, names: Names, wanted: str, array: Array) -> Value:
    """A new float32 constant before the operation that is being rewritten."""
    return rewriter.weight(names.new(wanted), np.ascontiguousarray(array, np.float32))


def sole_producer(operation: Operation, index: int = 0) -> Operation | None:
    """Who computes an operand that nobody else reads; None when others read it too or it is an argument."""
    value = operation.operands[index]
    return value.defining if len(value.uses) == 1 else None


def is_output(value: Value) -> bool:
    """Does the function return it?"""
    return any(isinstance(user.op, Return) for user, _ in value.uses)


def bypass(operation: Operation, rewriter: Rewriter) -> bool:
    """Take out an operation that only passes its operand on; an output's name moves to whoever computes it now."""
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
    """Another pattern, where no operand and no result is quantised: integers round at every op, so fusing two of them
    is another network.
    """

    def __init__(self, inner: Pattern) -> None:
        self._inner = inner
        self.matches = inner.matches  # pyright: ignore[reportAttributeAccessIssue]

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        values = [*operation.operands, *operation.results]
        if any(isinstance(value.type, TensorType) and value.type.is_quantised for value in values):
            return False
        return self._inner.rewrite(operation, rewriter)


def insert_before(anchor: Operation, operation: Operation) -> Value:
    """Put an operation before another one; its result."""
    assert anchor.block is not None
    return anchor.block.insert_before(anchor, operation).result
