"""Order transfers and tiles: load as early as local memory allows, write results back as soon as they are ready.

Both engines execute in order. The scheduler simulates them with the chip's timing model; whenever the transfer engine
would be idle, it prefetches for a later tile. Program order keeps the semantics; the assembler derives the waits from
it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from tpuc.api import Engine, Value

from tpuc_plan.planners.alignment import align
from tpuc_plan.tasks.cost import Cycles, Share, Shares
from tpuc_plan.tasks.steps import BlockLoad, Buffer, Step, Steps, Store, TensorLoad
from tpuc_plan.tasks.task import MoveTask

Load: TypeAlias = "TensorLoad | BlockLoad"
Item: TypeAlias = "Load | Store | Step | MoveTask"

_WINDOW = 32  # loads that may overtake one whose data is not there yet


def buffer_of(load: Load) -> Buffer:
    """Return the buffer that a load fills."""
    return load.place.buffer if isinstance(load, TensorLoad) else load.buffer


@dataclass(frozen=True)
class Moves:
    """Moves within DDR before a step, with the values that they read and write, and their cycles."""

    task: MoveTask
    reads: tuple[Value, ...]
    writes: Value
    cycles: int


@dataclass(frozen=True)
class Barrier:
    """Where all cores wait for each other, with the values that other cores have stored since the barrier before, and
    the timing of what follows.
    """

    stored: tuple[Value, ...]
    cycles: Cycles


LiveRanges: TypeAlias = "Mapping[Buffer, tuple[int, int]]"
"""First and last step at which each buffer is in use."""


@dataclass(frozen=True)
class Schedule:
    """All items in program order, the total cycles, the live ranges of buffers as changed by early loads and late
    stores, and before which items barriers are.
    """

    order: Sequence[Item]
    cycles: int
    live: LiveRanges
    barriers: Sequence[int] = ()


def live_bytes(live: LiveRanges, count: int, alignment: int) -> np.ndarray:
    """Return the bytes per lane in use at each of `count` steps, and after the last one."""
    change = np.zeros(count + 2, np.int64)
    for buffer, (first, last) in live.items():
        size = align(buffer.size, alignment)
        change[first] += size
        change[last + 1] -= size
    return np.cumsum(change)[: count + 1]


def _times(shares: Shares, begin: int, dma: int) -> Iterator[tuple[Share, int, int]]:
    """Yield begin and end of each command, if the first may begin at `begin` and the transfer engine is free at
    `dma`.
    """
    ends: dict[Engine, list[int]] = {Engine.COMPUTE: [begin], Engine.DMA: [max(begin, dma)]}
    for share in shares:
        other = ends[share.engine.other]
        start = max(ends[share.engine][-1], other[share.wait] if share.wait else begin)
        ends[share.engine].append(start + share.cycles)
        yield share, start, start + share.cycles


class Scheduler:
    """Orders the steps of a region by simulating both engines. `reserved`: bytes per lane at each step that early loads
    and late stores must leave free.

    Where there is space, a buffer keeps its place until its store has ended: a step that reused its bytes would have to
    wait for the store.
    """

    def __init__(
        self,
        steps: Steps,
        moves: Mapping[int, Sequence[Moves | Barrier]],
        capacity: int,
        alignment: int,
        reserved: np.ndarray | int = 0,
    ) -> None:
        self.steps = steps
        self.storing: list[tuple[Buffer, int]] = []  # buffers, and when their stores end
        self.moves = moves
        self.capacity = capacity
        self.alignment = alignment
        self.first = {buffer: buffer.first for buffer in steps.buffers}
        self.last = {buffer: buffer.last for buffer in steps.buffers}
        self.bytes = live_bytes(steps.live, len(steps.steps), alignment) + reserved
        self.order: list[Item] = []
        self.barriers: list[int] = []
        self.dma = 0
        self.compute = 0
        self.made: dict[Buffer, int] = {}  # when, where the transfer engine makes it
        self.done = [0] * len(steps.steps)
        self.waiting: deque[tuple[Store, int]] = deque()
        self.stores_left: Counter[Buffer] = Counter()  # by buffer, of those that wait
        self.ending: dict[int, list[Buffer]] = {}  # those buffers by the last step that needs them otherwise
        self.late: set[Buffer] = set()  # those that nothing else needs any more
        self.late_bytes = 0
        self.late_until = 0  # the last step at which late ones fit
        self.unwritten: Counter[Value] = Counter()
        self.loads: list[tuple[Load, int]] = []
        for index, step in enumerate(steps.steps):
            self.loads += [(load, index) for load in step.loads]
            self.unwritten.update(store.value for store in step.stores)
        for entry in (entry for entries in moves.values() for entry in entries):
            self.unwritten.update(entry.stored if isinstance(entry, Barrier) else (entry.writes,))
        self.barrier, self.until_barrier = self._next_barriers()
        self.issued = [False] * len(self.loads)
        self.next_load = 0
        self.arrival: list[int] = [0] * len(steps.steps)

    def run(self) -> Schedule:
        """Return the schedule."""
        for index, step in enumerate(self.steps.steps):
            self._free_space(index)
            self._move(index)
            self._load_needed(index)
            begin = max(self.compute, self.arrival[index], self._operands_there(step))
            self._keep_stored(index, begin)
            self._compute(step, index, begin)
            for store in step.stores:
                self._wait(store, index)
        self._free_space(len(self.steps.steps))
        while self.waiting:
            self._store()
        self._move(len(self.steps.steps))
        live = {buffer: (first, self.last[buffer]) for buffer, first in self.first.items()}
        return Schedule(self.order, max(self.dma, self.compute), live, self.barriers)

    def _next_barriers(self) -> tuple[Sequence[int], Sequence[int]]:
        """Return, for each step, the first step after the next barrier, and the cycles of the steps up to there."""
        steps = self.steps.steps
        after, until = [len(steps) + 1] * len(steps), [0] * len(steps)
        for index in range(len(steps) - 2, -1, -1):
            if any(isinstance(one, Barrier) for one in self.moves.get(index + 1, ())):
                after[index] = index + 1
            else:
                after[index], until[index] = after[index + 1], until[index + 1] + steps[index + 1].cycles
        return after, until

    def _operands_there(self, step: Step) -> int:
        """Return the time at which the transfer engine has produced all operands of a step."""
        return max((self.made.get(place.buffer, 0) for place in step.operands if place is not None), default=0)

    def _compute(self, step: Step, index: int, begin: int) -> None:
        """Append a step that begins at `begin`. Commands of both engines run as their waits allow, after the transfers
        that begin before the step's first one.
        """
        first = next((start for share, start, _ in _times(step.shares, begin, 0) if share.engine is Engine.DMA), None)
        self._use_idle_time(index, begin + step.cycles if first is None else first)
        self.order.append(step)
        if first is None:
            self.compute = self.done[index] = begin + step.cycles
            return
        for share, _, end in _times(step.shares, begin, self.dma):
            if share.engine is Engine.DMA:
                self.dma = end
            else:
                self.compute = end
        self.done[index] = max(self.dma, self.compute)
        if self.dma > self.compute:
            self.made.update((place.buffer, self.dma) for place in step.results)

    def _size(self, buffer: Buffer) -> int:
        return align(buffer.size, self.alignment)

    def _free_space(self, index: int) -> None:
        """Keep results that wait to be written back during step `index` if they fit, else store them before it."""
        for buffer in self.ending.pop(index - 1, ()):
            if buffer in self.stores_left and buffer not in self.late:
                self.late.add(buffer)
                self.late_bytes += self._size(buffer)
        if index < len(self.steps.steps) and self.bytes[index] + self.late_bytes <= self.capacity:
            self.late_until = index
            self.bytes[index] += self.late_bytes
            return
        while self.waiting:
            self._store()

    def _keep_stored(self, index: int, begin: int) -> None:
        """Keep the bytes of buffers that are still being stored when step `index` begins, if they fit."""
        storing, self.storing = self.storing, []
        for buffer, end in storing:
            size, last = self._size(buffer), self.last[buffer]
            if end <= begin or last < index - 1:
                continue
            if last < index:
                if self.bytes[index] + size > self.capacity:
                    continue
                self.bytes[index] += size
                self.last[buffer] = index
            self.storing.append((buffer, end))

    def _wait(self, store: Store, index: int) -> None:
        buffer = store.place.buffer
        if buffer not in self.stores_left:
            self.ending.setdefault(max(self.last[buffer], index), []).append(buffer)
        self.stores_left[buffer] += 1
        self.waiting.append((store, index))

    def _store(self) -> None:
        store, index = self.waiting.popleft()
        self.dma = max(self.dma, self.done[index]) + store.cycles
        self.unwritten[store.value] -= 1
        self.order.append(store)
        buffer = store.place.buffer
        if buffer in self.late:
            self.last[buffer] = max(self.last[buffer], self.late_until)
        self.storing.append((buffer, self.dma))
        self.stores_left[buffer] -= 1
        if not self.stores_left[buffer]:
            del self.stores_left[buffer]
            if buffer in self.late:
                self.late.remove(buffer)
                self.late_bytes -= self._size(buffer)

    def _move(self, index: int) -> None:
        for move in self.moves.get(index, ()):
            if isinstance(move, Barrier):
                self._wait_for_all(move)
                continue
            while self.waiting and any(self.unwritten[value] for value in move.reads):
                self._store()
            self.dma += move.cycles
            self.unwritten[move.writes] -= 1
            self.order.append(move.task)

    def _wait_for_all(self, barrier: Barrier) -> None:
        """Store everything, as others may read it. What was loaded for later steps stays."""
        while self.waiting:
            self._store()
        self.dma = self.compute = max(self.dma, self.compute)
        self.unwritten.subtract(barrier.stored)
        self.barriers.append(len(self.order))

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
            self.bytes[index:use] += self._size(buffer)
            self.first[buffer] = index
        self.dma += load.cycles
        self.arrival[use] = max(self.arrival[use], self.dma)
        self.issued[position] = True
        self.order.append(load)

    def _use_idle_time(self, index: int, end: int) -> None:
        """Issue the transfers that can begin before step `index` ends."""
        barrier = self.barrier[index]
        while self.dma < end:
            position = self._early_load(index, end)
            urgent = position is not None and self.loads[position][1] == index + 1 < barrier
            if self.waiting and self.done[self.waiting[0][1]] <= self.dma and not urgent:
                self._store()
            elif position is not None:
                self._load(position, index)
            elif self.waiting and self.done[self.waiting[0][1]] < end:
                self._store()
            elif self._is_blocked(index):
                self.dma = end  # the next load's space is taken until this step ends
            else:
                break

    def _is_blocked(self, index: int) -> bool:
        """True if the first later load whose data is ready has no space."""
        for position in range(self.next_load, min(self.next_load + _WINDOW, len(self.loads))):
            load = self.loads[position][0]
            if not self.issued[position] and self._ready(load):
                return int(self.bytes[index]) + self._size(buffer_of(load)) > self.capacity
        return False

    def _early_load(self, index: int, end: int) -> int | None:
        """Return the position of the first later load whose data is ready, if it has space; else None. What is for
        steps after a barrier must have arrived before, so that the other cores need not wait for it.
        """
        while self.next_load < len(self.loads) and self.issued[self.next_load]:
            self.next_load += 1
        for position in range(self.next_load, min(self.next_load + _WINDOW, len(self.loads))):
            load, use = self.loads[position]
            if self.issued[position] or not self._ready(load):
                continue
            if use >= self.barrier[index] and self.dma + load.cycles > end + self.until_barrier[index]:
                continue
            free = self.capacity - self._size(buffer_of(load))
            return position if int(self.bytes[index:use].max()) <= free else None
        return None
