"""The order of transfers and tiles: loads as early as local memory allows, stores as soon as they are ready.

Both engines work in order. This follows them in time by the chip's timing model, and whenever the transfer engine would
be idle lets it load what a later tile needs. Program order keeps the meaning; the assembler derives the waits from it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tpuc_passes.planning.steps import BlockLoad, Buffer, Step, Steps, Store, TensorLoad
from tpuc_passes.planning.task import MoveTask

Load: TypeAlias = "TensorLoad | BlockLoad"
Item: TypeAlias = "Load | Store | Step | MoveTask"

_WINDOW = 32  # loads that may overtake one whose data is not there yet


def buffer_of(load: Load) -> Buffer:
    """The buffer that a load fills."""
    return load.place.buffer if isinstance(load, TensorLoad) else load.buffer


@dataclass(frozen=True)
class Moves:
    """Moves within DDR before a step, each with the values that it reads and writes (by `id`) and its cycles."""

    task: MoveTask
    reads: tuple[int, ...]
    writes: int
    cycles: int


def live_bytes(steps: Steps, alignment: int) -> np.ndarray:
    """Bytes per lane that are in use at every step."""
    change = np.zeros(len(steps.steps) + 2, np.int64)
    for buffer in steps.buffers:
        size = -(-buffer.size // alignment) * alignment
        change[buffer.first] += size
        change[buffer.last + 1] -= size
    return np.cumsum(change)[: len(steps.steps) + 1]


class Scheduler:
    """Orders one stretch of steps. Widens the lifetimes of buffers whose load is early or whose store is late."""

    def __init__(self, steps: Steps, moves: Mapping[int, Sequence[Moves]], capacity: int, alignment: int) -> None:
        self.steps = steps
        self.moves = moves
        self.capacity = capacity
        self.alignment = alignment
        self.live = live_bytes(steps, alignment)
        self.order: list[Item] = []
        self.dma = 0
        self.compute = 0
        self.done = [0] * len(steps.steps)
        self.waiting: deque[tuple[Store, int]] = deque()
        self.stores_left: Counter[int] = Counter()  # by buffer, of those that wait
        self.ending: dict[int, list[Buffer]] = {}  # those buffers by the last step that needs them otherwise
        self.late: dict[int, Buffer] = {}  # those that nothing else needs any more
        self.late_bytes = 0
        self.stayed = 0  # the last step that late ones have room in
        self.unwritten: Counter[int] = Counter()
        self.loads: list[tuple[Load, int]] = []
        for index, step in enumerate(steps.steps):
            self.loads += [(load, index) for load in step.loads]
            self.unwritten.update(id(store.value) for store in step.stores)
        for entries in moves.values():
            self.unwritten.update(move.writes for move in entries)
        self.issued = [False] * len(self.loads)
        self.next_load = 0
        self.arrival: list[int] = [0] * len(steps.steps)

    @property
    def cycles(self) -> int:
        """When both engines have finished."""
        return max(self.dma, self.compute)

    def run(self) -> list[Item]:
        """Everything in program order."""
        for index, step in enumerate(self.steps.steps):
            self._make_room(index)
            self._move(index)
            self._load_needed(index)
            end = max(self.compute, self.arrival[index]) + step.cycles
            self._use_idle_time(index, end)
            self.order.append(step)
            self.compute = self.done[index] = end
            for store in step.stores:
                self._wait(store, index)
        self._make_room(len(self.steps.steps))
        while self.waiting:
            self._store()
        self._move(len(self.steps.steps))
        return self.order

    def _size(self, buffer: Buffer) -> int:
        return -(-buffer.size // self.alignment) * self.alignment

    def _make_room(self, index: int) -> None:
        """Results that wait to be stored stay where they are during step `index`, or are stored before it."""
        for buffer in self.ending.pop(index - 1, ()):
            if id(buffer) in self.stores_left and id(buffer) not in self.late:
                self.late[id(buffer)] = buffer
                self.late_bytes += self._size(buffer)
        if index < len(self.steps.steps) and self.live[index] + self.late_bytes <= self.capacity:
            self.stayed = index
            self.live[index] += self.late_bytes
            return
        while self.waiting:
            self._store()

    def _wait(self, store: Store, index: int) -> None:
        buffer = store.place.buffer
        if id(buffer) not in self.stores_left:
            self.ending.setdefault(max(buffer.last, index), []).append(buffer)
        self.stores_left[id(buffer)] += 1
        self.waiting.append((store, index))

    def _store(self) -> None:
        store, index = self.waiting.popleft()
        self.dma = max(self.dma, self.done[index]) + store.cycles
        self.unwritten[id(store.value)] -= 1
        self.order.append(store)
        buffer = store.place.buffer
        if id(buffer) in self.late:
            buffer.last = max(buffer.last, self.stayed)
        self.stores_left[id(buffer)] -= 1
        if not self.stores_left[id(buffer)]:
            del self.stores_left[id(buffer)]
            if self.late.pop(id(buffer), None) is not None:
                self.late_bytes -= self._size(buffer)

    def _move(self, index: int) -> None:
        for move in self.moves.get(index, ()):
            while self.waiting and any(self.unwritten[value] for value in move.reads):
                self._store()
            self.dma += move.cycles
            self.unwritten[move.writes] -= 1
            self.order.append(move.task)

    def _ready(self, load: Load) -> bool:
        return not isinstance(load, TensorLoad) or not any(self.unwritten[writer] for writer in load.writers)

    def _load_needed(self, index: int) -> None:
        position = self.next_load
        while position < len(self.loads) and self.loads[position][1] == index:
            if not self.issued[position]:
                while not self._ready(self.loads[position][0]):
                    self._store()
                self._load(position, index)
            position += 1
        self.next_load = position

    def _load(self, position: int, index: int) -> None:
        load, use = self.loads[position]
        buffer = buffer_of(load)
        if index < use:
            self.live[index:use] += self._size(buffer)
            buffer.first = index
        self.dma += load.cycles
        self.arrival[use] = max(self.arrival[use], self.dma)
        self.issued[position] = True
        self.order.append(load)

    def _use_idle_time(self, index: int, end: int) -> None:
        """Transfers that may begin before step `index` ends."""
        while self.dma < end:
            position = self._early_load(index)
            urgent = position is not None and self.loads[position][1] == index + 1
            if self.waiting and self.done[self.waiting[0][1]] <= self.dma and not urgent:
                self._store()
            elif position is not None:
                self._load(position, index)
            elif self.waiting and self.done[self.waiting[0][1]] < end:
                self._store()
            elif self._is_blocked(index):
                self.dma = end  # the room of the next load is taken until this step ends
            else:
                break

    def _is_blocked(self, index: int) -> bool:
        """Has the first load of later steps that has its data no room?"""
        for position in range(self.next_load, min(self.next_load + _WINDOW, len(self.loads))):
            load = self.loads[position][0]
            if not self.issued[position] and self._ready(load):
                return int(self.live[index]) + self._size(buffer_of(load)) > self.capacity
        return False

    def _early_load(self, index: int) -> int | None:
        """The first load of later steps that has its data and room for it."""
        while self.next_load < len(self.loads) and self.issued[self.next_load]:
            self.next_load += 1
        for position in range(self.next_load, min(self.next_load + _WINDOW, len(self.loads))):
            load, use = self.loads[position]
            if self.issued[position] or not self._ready(load):
                continue
            room = self.capacity - self._size(buffer_of(load))
            return position if int(self.live[index:use].max()) <= room else None
        return None
