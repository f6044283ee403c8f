"""Which values share their bytes in DDR: aliases, parts one after the other in a whole, parts of another value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import ArrayAttr, Constant, IntegerAttr, Move, NetworkInput, Operation, RowMove, Value

ALIAS = "alias"
MERGED = "merged"
INSIDE = "inside"
ASSEMBLED = "assembled"
"""On a merged operation whose parts are put together in local memory."""


@dataclass(frozen=True)
class Merge:
    """Values that lie one after the other in `whole`, each with the element at which it begins."""

    operation: Operation
    whole: Value
    parts: tuple[tuple[Value, int], ...]


@dataclass(frozen=True)
class Place:
    """Bytes of a value: `offset_bytes` behind the start of `root`."""

    root: Value
    offset_bytes: int


def origin(value: Value) -> Value:
    """The value whose bytes these are, through operations that change nothing."""
    operation = value.defining
    while operation is not None and ALIAS in operation.extra_attributes:
        value = operation.operands[0]
        operation = value.defining
    return value


class Places:
    """The shared bytes of a function, by the marks of `Sharing` on its operations."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._outer: dict[int, tuple[Value, int]] = {}
        self._parts: dict[int, list[Value]] = {}
        self.assemblies: dict[int, tuple[Merge, int]] = {}
        """By the `id` of a part that is put into a whole in local memory: the merge, and its position there."""
        for operation in operations:
            offsets = operation.extra_attributes.get(MERGED)
            if isinstance(offsets, ArrayAttr):
                whole = operation.result
                parts = [origin(operand) for operand in operation.operands]
                self._parts[id(whole)] = parts
                for part, offset in zip(parts, _numbers(offsets), strict=True):
                    self._outer[id(part)] = (whole, offset)
                if ASSEMBLED in operation.extra_attributes:
                    merge = merge_of(operation)
                    self.assemblies.update((id(part), (merge, index)) for index, part in enumerate(parts))
            inside = operation.extra_attributes.get(INSIDE)
            if isinstance(inside, IntegerAttr):
                source = origin(operation.operands[0])
                self._parts[id(operation.result)] = [source]
                self._outer[id(operation.result)] = (source, inside.value)

    def place(self, value: Value) -> Place:
        """Where the bytes of a value are."""
        value = origin(value)
        at = 0
        while id(value) in self._outer:
            value, offset = self._outer[id(value)]
            at += offset
        return Place(value, at)

    def writers(self, value: Value) -> Iterator[Value]:
        """The values that are stored so that this one is complete."""
        waiting = [value]
        while waiting:
            value = origin(waiting.pop())
            if id(value) in self._parts:
                waiting += reversed(self._parts[id(value)])
            else:
                yield value


def merge_of(operation: Operation) -> Merge:
    """The merge that a marked operation stands for."""
    offsets = operation.extra_attributes[MERGED]
    assert isinstance(offsets, ArrayAttr)
    size = _item_bytes(operation.result)
    parts = zip(operation.operands, _numbers(offsets), strict=True)
    return Merge(operation, operation.result, tuple((origin(part), offset // size) for part, offset in parts))


def merged_start(part: Sequence[int], offset: int) -> tuple[int, int, int, int] | None:
    """Where a part of n, c, h, w lies in a whole whose channels are those of its parts; None if not at a channel."""
    n, _, h, w = part
    return (0, offset // (h * w), 0, 0) if n == 1 and offset % (h * w) == 0 else None


def _numbers(attribute: ArrayAttr) -> list[int]:
    return [item.value for item in attribute.items if isinstance(item, IntegerAttr)]


def is_free(operation: Operation) -> bool:
    """Does the operation need no instruction because its result shares bytes?"""
    return any(name in operation.extra_attributes for name in (ALIAS, MERGED, INSIDE))


class Sharing:
    """Marks moves that need not happen, one operation after the other in program order."""

    def __init__(self, outputs: Sequence[Value]) -> None:
        self._fixed = {id(origin(value)) for value in outputs}
        self._taken: set[int] = set()

    def mark(self, operation: Operation, moves: Sequence[Move]) -> bool:
        """Mark an operation whose result is its operands one after the other, or a part of its only operand."""
        if len(operation.results) != 1 or any(move.fill is not None or isinstance(move, RowMove) for move in moves):
            return False
        shifts = _shifts(moves)
        if shifts is None:
            return False
        return self._mark_inside(operation, moves, shifts) or self._mark_merged(operation, moves, shifts)

    def _mark_inside(self, operation: Operation, moves: Sequence[Move], shifts: Mapping[int, int]) -> bool:
        moved = sum(int(np.prod(move.shape)) for move in moves)
        if list(shifts) != [0] or moved != operation.result.tensor.size or shifts[0] > 0:
            return False
        source = origin(operation.operands[0])
        if id(origin(operation.result)) in self._fixed or not _is_computed(source):
            return False
        operation.extra_attributes[INSIDE] = IntegerAttr(-shifts[0] * _item_bytes(operation.result))
        self._taken.add(id(source))
        self._taken.add(id(operation.result))
        return True

    def _mark_merged(self, operation: Operation, moves: Sequence[Move], shifts: Mapping[int, int]) -> bool:
        roots = [origin(operand) for operand in operation.operands]
        for index, root in enumerate(roots):
            moved = sum(int(np.prod(move.shape)) for move in moves if move.operand == index)
            if index not in shifts or moved != root.tensor.size or not _is_computed(root):
                return False
        keys = [id(root) for root in roots]
        if len(set(keys)) < len(keys) or any(key in self._fixed or key in self._taken for key in keys):
            return False
        self._taken.update(keys)
        offsets = [IntegerAttr(shifts[index] * _item_bytes(operation.result)) for index in range(len(roots))]
        operation.extra_attributes[MERGED] = ArrayAttr(tuple(offsets))
        return True


def _item_bytes(value: Value) -> int:
    return value.tensor.storage.bits // 8


def _is_computed(value: Value) -> bool:
    """Constants and network inputs have addresses of their own."""
    return value.defining is not None and not isinstance(value.defining.op, (Constant, NetworkInput))


def _shifts(moves: Sequence[Move]) -> dict[int, int] | None:
    """Per operand how many elements further each of its elements lies in the result; None when that differs."""
    shifts: dict[int, int] = {}
    for move in moves:
        steps = zip(move.shape, move.source_strides, move.target_strides, strict=True)
        if any(source != target for extent, source, target in steps if extent > 1):
            return None
        shift = move.target_offset - move.source_offset
        if shifts.setdefault(move.operand, shift) != shift:
            return None
    return shifts
