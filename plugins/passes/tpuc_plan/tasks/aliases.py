"""Values that share bytes in DDR: aliases, parts of a concatenation, slices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Constant, Function, Move, NetworkInput, Operation, RowMove, Value

from tpuc_plan.tasks.plan import Alias, ConcatAlias, OpPlan, Plan, SliceView


@dataclass(frozen=True)
class Concat:
    """A concatenation: values that lie one after the other in `whole`, each with its first element."""

    whole: Value
    parts: tuple[tuple[Value, int], ...]


class AliasSets:
    """The values of a function that share bytes, built from the plans of its operations in program order."""

    def __init__(self) -> None:
        self.concats: list[Concat] = []
        self.lmem_concats: list[Concat] = []
        """The concatenations that happen in local memory."""
        self._roots: dict[Value, Value] = {}
        self._outer: dict[Value, tuple[Value, int]] = {}
        self._parts: dict[Value, Sequence[Value]] = {}

    @staticmethod
    def of(function: Function, plan: Plan) -> AliasSets:
        """Build the alias sets of a whole plan."""
        found = AliasSets()
        for operation, op_plan in zip(function.operations, plan.ops, strict=True):
            found.add(operation, op_plan)
        return found

    def add(self, operation: Operation, plan: OpPlan) -> None:
        """Record the bytes that an operation's result shares with its operands."""
        match plan:
            case Alias():
                self._roots[operation.result] = self.root(operation.operands[0])
            case SliceView(offset=offset):
                source = self.root(operation.operands[0])
                self._outer[operation.result] = (source, offset)
                self._parts[operation.result] = [source]
            case ConcatAlias(offsets=offsets, in_lmem=in_lmem):
                parts = [self.root(operand) for operand in operation.operands]
                places = list(zip(parts, offsets, strict=True))
                self._outer.update((part, (operation.result, offset)) for part, offset in places)
                self._parts[operation.result] = parts
                size = _item_bytes(operation.result)
                concat = Concat(operation.result, tuple((part, offset // size) for part, offset in places))
                self.concats.append(concat)
                if in_lmem:
                    self.lmem_concats.append(concat)
            case _:
                pass

    def root(self, value: Value) -> Value:
        """Return the value whose bytes these are, through operations that change nothing."""
        return self._roots.get(value, value)

    def place(self, value: Value) -> tuple[Value, int]:
        """Return the DDR value that contains this value, and the byte offset in it."""
        value, at = self.root(value), 0
        while value in self._outer:
            value, offset = self._outer[value]
            at += offset
        return value, at

    def writers(self, value: Value) -> Iterator[Value]:
        """Yield the values that must be written back before this one is complete."""
        waiting = [value]
        while waiting:
            value = self.root(waiting.pop())
            if value in self._parts:
                waiting += reversed(self._parts[value])
            else:
                yield value


class AliasFinder:
    """Finds moves that are unnecessary, one operation after the other in program order.

    `aliases`: alias sets of the earlier operations. `outputs`: network outputs.
    """

    def __init__(self, aliases: AliasSets, outputs: Collection[Value]) -> None:
        self._aliases = aliases
        self._outputs = outputs
        self._taken: set[Value] = set()

    def plan(self, operation: Operation, moves: Sequence[Move]) -> SliceView | ConcatAlias | None:
        """Return how the result shares bytes if it concatenates the operands or is a contiguous slice of the only one;
        else None.
        """
        if len(operation.results) != 1 or any(move.fill is not None or isinstance(move, RowMove) for move in moves):
            return None
        shifts = _shifts(moves)
        if shifts is None:
            return None
        roots = [self._aliases.root(operand) for operand in operation.operands]
        return self._slice_view(operation, roots, moves, shifts) or self._concat(operation, roots, moves, shifts)

    def _slice_view(
        self, operation: Operation, roots: Sequence[Value], moves: Sequence[Move], shifts: Mapping[int, int]
    ) -> SliceView | None:
        moved = sum(int(np.prod(move.shape)) for move in moves)
        if list(shifts) != [0] or moved != operation.result.tensor.size or shifts[0] > 0:
            return None
        if operation.result in self._outputs or _is_constant(roots[0]):
            return None
        self._taken |= {roots[0], operation.result}
        return SliceView(-shifts[0] * _item_bytes(operation.result))

    def _concat(
        self, operation: Operation, roots: Sequence[Value], moves: Sequence[Move], shifts: Mapping[int, int]
    ) -> ConcatAlias | None:
        for index, root in enumerate(roots):
            moved = sum(int(np.prod(move.shape)) for move in moves if move.operand == index)
            if index not in shifts or moved != root.tensor.size or not _is_computed(root):
                return None
        if len(set(roots)) < len(roots) or any(root in self._outputs or root in self._taken for root in roots):
            return None
        self._taken.update(roots)
        return ConcatAlias(tuple(shifts[index] * _item_bytes(operation.result) for index in range(len(roots))))


def concat_start(part: Sequence[int], offset: int) -> tuple[int, int, int, int] | None:
    """Return the position of a part (n, c, h, w) in a whole that concatenates channels; None if `offset` is not at a
    channel.
    """
    n, _, h, w = part
    return (0, offset // (h * w), 0, 0) if n == 1 and offset % (h * w) == 0 else None


def _item_bytes(value: Value) -> int:
    return value.tensor.storage.bits // 8


def _is_constant(value: Value) -> bool:
    return value.defining is None or isinstance(value.defining.op, Constant)


def _is_computed(value: Value) -> bool:
    """False for constants and network inputs, which have addresses of their own."""
    return value.defining is not None and not isinstance(value.defining.op, (Constant, NetworkInput))


def _shifts(moves: Sequence[Move]) -> dict[int, int] | None:
    """Return, per operand, the constant distance in elements between its place in the operand and in the result; None
    if it varies.
    """
    shifts: dict[int, int] = {}
    for move in moves:
        steps = zip(move.shape, move.source_strides, move.target_strides, strict=True)
        if any(source != target for extent, source, target in steps if extent > 1):
            return None
        shift = move.target_offset - move.source_offset
        if shifts.setdefault(move.operand, shift) != shift:
            return None
    return shifts
