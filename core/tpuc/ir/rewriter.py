"""Pattern rewriting: apply local changes until none matches, and remove dead operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from tpuc.errors import TpucError
from tpuc.ir.builder import Builder
from tpuc.ir.builtin import Call, Return
from tpuc.ir.op import Op
from tpuc.ir.operation import Location, Module, Operation, Value
from tpuc.ir.traits import Constant, NetworkInput, SideEffects

REWRITES_PER_OPERATION = 32
"""Limit of rewrites per operation of the module; beyond it, patterns must be undoing each other."""


class EndlessRewrite(TpucError):
    """A set of patterns that does not terminate."""


class Pattern(ABC):
    """One kind of rewrite. `matches`: the op classes it applies to; an empty tuple means every operation."""

    matches: ClassVar[tuple[type[Op], ...]] = ()

    @abstractmethod
    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        """Change the graph around `operation` through `rewriter` and return True, or leave it unchanged and return
        False.
        """


class Rewriter(Builder):
    """The interface for changing the graph: it builds before the matched operation and tracks what to revisit."""

    def __init__(self, module: Module, *, constant: Op | None = None, absent: Op | None = None) -> None:
        super().__init__(module, constant=constant, absent=absent)
        self._queue: deque[Operation] = deque()
        self._queued: set[Operation] = set()

    def insert(self, operation: Operation) -> Operation:
        """Put an operation at the insertion point."""
        super().insert(operation)
        self.look_at(operation)
        return operation

    def insert_before(self, anchor: Operation, operation: Operation) -> Operation:
        """Insert an operation before another one."""
        assert anchor.block is not None
        self.look_at(anchor.block.insert_before(anchor, operation))
        return operation

    def insert_after(self, anchor: Operation, operation: Operation) -> Operation:
        """Insert an operation after another one."""
        assert anchor.block is not None
        self.look_at(anchor.block.insert_after(anchor, operation))
        return operation

    def replace(self, operation: Operation, values: Value | Sequence[Value]) -> None:
        """Replace all uses of the results by `values`, and erase the operation."""
        values = (values,) if isinstance(values, Value) else tuple(values)
        if len(values) != len(operation.results):
            raise ValueError(
                f"op '{operation.name}' ({operation.op.name}): {len(operation.results)} results, "
                f"{len(values)} replacements"
            )
        for result, value in zip(operation.results, values, strict=True):
            self.replace_value(result, value)
        self.erase(operation)

    def replace_value(self, old: Value, new: Value) -> None:
        """Replace all uses of one value by another."""
        for user in old.users:
            self.look_at(user)
        old.replace_with(new)
        if new.defining is not None:
            self.look_at(new.defining)

    def erase(self, operation: Operation) -> None:
        """Remove an unused operation."""
        feeding = [value.defining for value in operation.operands]
        if self.before is operation:  # the builder goes on where it was
            block = operation.block
            assert block is not None
            following = block.position(operation) + 1
            self.before = block.operations[following] if following < len(block.operations) else None
        operation.erase()
        for other in feeding:
            if other is not None:
                self.look_at(other)

    def change(self, operation: Operation, op: Op, location: Location | None = None) -> None:
        """Replace the op of an operation by another of the same kind (other attributes), optionally renaming it."""
        operation.op = op
        if location is not None:
            operation.location = location
            self.take(location)
        self.look_at(operation)
        for result in operation.results:
            for user in result.users:
                self.look_at(user)

    def set_operand(self, operation: Operation, index: int, value: Value) -> None:
        """Replace an operand of an operation."""
        before = operation.operands[index].defining
        operation.set_operand(index, value)
        self.look_at(operation)
        if before is not None:
            self.look_at(before)

    def look_at(self, operation: Operation) -> None:
        """Schedule the operation for another visit."""
        if operation not in self._queued:
            self._queued.add(operation)
            self._queue.append(operation)

    def next(self) -> Operation | None:
        """The next scheduled operation that is still in the graph."""
        while self._queue:
            operation = self._queue.popleft()
            self._queued.discard(operation)
            if operation.block is not None:
                return operation
        return None


def apply_patterns(
    module: Module,
    patterns: Sequence[Pattern],
    *,
    constant: Op | None = None,
    absent: Op | None = None,
    limit: int | None = None,
) -> bool:
    """Apply patterns, first match first, until none applies, and remove dead operations. Returns True if anything
    changed.

    Operations are visited in order; changed ones and their neighbors are revisited. `limit` bounds the number of
    rewrites.
    """
    rewriter = Rewriter(module, constant=constant, absent=absent)
    operations = list(module.walk())
    for operation in operations:
        rewriter.look_at(operation)
    left = limit if limit is not None else REWRITES_PER_OPERATION * max(len(operations), 32)
    changed = False
    while (operation := rewriter.next()) is not None:
        if is_dead(operation):
            rewriter.erase(operation)
            changed = True
            continue
        pattern = _apply_first(operation, patterns, rewriter)
        if pattern is None:
            continue
        changed = True
        left -= 1
        if left < 0:
            raise EndlessRewrite(
                f"op '{operation.name}' ({operation.op.name}): pattern {type(pattern).__name__} still rewrites after "
                f"{limit or REWRITES_PER_OPERATION * max(len(operations), 32)} steps; "
                "patterns undo each other, one of them must refuse"
            )
        if operation.block is not None:
            rewriter.look_at(operation)
    return changed


def is_dead(operation: Operation) -> bool:
    """True if all its results are unused and it has no other effect."""
    if not operation.results or any(result.uses for result in operation.results):
        return False
    return not isinstance(operation.op, (SideEffects, NetworkInput, Return, Call))


def remove_dead(module: Module) -> bool:
    """Remove every dead operation. Returns True if there was one."""
    changed = False
    for operation in reversed(list(module.walk())):
        if operation.block is not None and is_dead(operation):
            operation.erase()
            changed = True
    return changed


def drop_unused_weights(module: Module) -> None:
    """Remove weights that no constant of the module uses."""
    module.weights.keep_only({op.name for op in module.walk() if isinstance(op.op, Constant)})


def remove_unused(module: Module) -> None:
    """Remove every dead operation, and the weights that no constant uses then."""
    remove_dead(module)
    drop_unused_weights(module)


def _apply_first(operation: Operation, patterns: Sequence[Pattern], rewriter: Rewriter) -> Pattern | None:
    for pattern in patterns:
        if not pattern.matches or isinstance(operation.op, pattern.matches):
            rewriter.at(operation)
            if pattern.rewrite(operation, rewriter):
                return pattern
    return None
