"""Estimate the cost of a cascade from its first, middle, and last stripe."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tpuc_plan.tasks.cost import Cycles
from tpuc_plan.tasks.stripes import Cascade, Propagation, rows_of, same_rows
from tpuc_plan.tasks.task import KernelFacts, TileTask

_APART = 0.3
"""Non-overlapped fraction of the less busy engine's time, if buffers have space."""


def time_of(transfers: float, compute: float) -> float:
    """Estimate the total time of transfer and compute cycles that overlap."""
    return max(transfers, compute) + _APART * min(transfers, compute)


@dataclass(frozen=True)
class Estimate:
    """The cost of a cascade: transfer cycles, compute cycles without space to prefetch the next stripe's data
    (`blocked`) and with it (`overlapped`), and bytes per lane.
    """

    transfers: int
    blocked: float
    overlapped: float
    lane_bytes: int

    def time(self, more: int) -> float:
        """Estimate the time, with `more` cycles of transfers elsewhere."""
        return self.blocked + time_of(self.transfers + more, self.overlapped)


@dataclass(frozen=True)
class _SampledStripe:
    """A stripe that stands for `weight` stripes: bytes transferred, and per task the live bytes and compute cycles."""

    weight: int
    passing: int
    live: tuple[int, ...]
    compute: tuple[int, ...]


@dataclass(frozen=True)
class ScheduleProfile:
    """The cost of a cascade independent of the budget: transfer cycles, and bytes per lane of constants and in all.

    Unless `complete`, some stripes are missing; they matter only if the others fit.
    """

    transfers: int
    constants: int
    lane_bytes: int
    stripes: tuple[_SampledStripe, ...]
    complete: bool

    def suffices(self, budget: int) -> bool:
        """True if an estimate for this budget is possible."""
        return self.complete or self.lane_bytes > budget

    def estimate(self, budget: int) -> Estimate | None:
        """Return the cost of the cascade with `budget` bytes per lane; None if it needs more."""
        if self.lane_bytes > budget:
            return None
        blocked = overlapped = 0.0
        for one in self.stripes:
            for own, used in zip(one.compute, one.live, strict=True):
                share = min((budget - self.constants - used) / max(one.passing, 1), 1.0)
                overlapped += one.weight * own * share
                blocked += one.weight * own * (1 - share)
        return Estimate(self.transfers, blocked, overlapped, self.lane_bytes)


class CascadeCosts:
    """Cache of cascade profiles for a module; of cascades with the same structure, only one is profiled."""

    def __init__(self, cycles: Cycles) -> None:
        self.cycles = cycles
        self._kinds: dict[KernelFacts, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[Hashable, ScheduleProfile | None] = {}

    def profile(self, key: Hashable, budget: int, make: Callable[[], ScheduleProfile | None]) -> ScheduleProfile | None:
        """Return the profile of the cascades with structure `key`, calling `make` if it is not known; None if
        impossible.
        """
        known = self._known.get(key)
        if key not in self._known or (known is not None and not known.suffices(budget)):
            known = self._known[key] = make()
        return known

    def number(self, looks: Hashable) -> int:
        """Return the same number for equal objects."""
        return self._numbers.setdefault(looks, len(self._numbers))

    def kind(self, task: TileTask) -> int:
        """Return the same number for tasks that differ only in their values."""
        facts = task.facts
        if facts not in self._kinds:
            self._kinds[facts] = self.number((facts.looks, facts.view))
        return self._kinds[facts]


class IncrementalEstimate:
    """Profiles cascades that end with the same task and have the same stripes, from the shortest to the longest.

    `cascade`: the longest one. `dependences`: per task, the tasks (numbered as in the region) that write its operands
    through a different alias root.
    """

    def __init__(self, cascade: Cascade, dependences: Sequence[AbstractSet[int]], cycles: Cycles) -> None:
        self.cascade = cascade
        self.dependences = dependences
        self.cycles = cycles
        self.known = len(cascade.tasks)
        self.impossible = False
        count = cascade.count
        weights = {0: 1, count - 1: 1}
        weights[count // 2] = weights.get(count // 2, 0) + count - len(weights)
        self.batches = count // cascade.stripes.parts
        self.samples = [_Sample(cascade, number, weight, cycles) for number, weight in sorted(weights.items())]
        self.constants = [(0, 0)] * len(cascade.tasks)

    def profile(self, start: int, budget: int) -> ScheduleProfile | None:
        """Return the profile of the cascade that begins at task `start` of the longest one, up to the first stripe that
        exceeds `budget`; None if it is impossible.
        """
        while self.known > start and not self.impossible:
            self.known -= 1
            self.impossible = not self._add(self.known)
        if self.impossible:
            return None
        assert self.known == start, "cascades are asked for from the shortest on"
        sizes = [own for own, _ in self.constants[start:]]
        is_resident = self.cascade.stripes.resident
        size, passing_sizes = (sum(sizes), [0] * len(sizes)) if is_resident else (0, sizes)
        transfers = sum(cycles for _, cycles in self.constants[start:])
        lane_bytes = 0
        sampled: list[_SampledStripe] = []
        for sample in self.samples:
            moved, passing, live = sample.around(start)
            live = [values + own for values, own in zip(live, passing_sizes, strict=True)]
            transfers += sample.weight * moved
            lane_bytes = max(lane_bytes, max(live) + size)
            sampled.append(_SampledStripe(sample.weight, passing, tuple(live), tuple(sample.compute[start:])))
            if lane_bytes > budget:
                break
        return ScheduleProfile(transfers, size, lane_bytes, tuple(sampled), len(sampled) == len(self.samples))

    def _add(self, point: int) -> bool:
        """Prepend a task; False if no stripe can pass through it, or if too many rows would be computed twice."""
        cascade, task = self.cascade, self.cascade.tasks[point]
        if not self._is_possible(point, task):
            return False
        rows = 0
        for sample in self.samples:
            try:
                rows += sample.weight * sample.add(point)
            except ValueError:
                return False
        self.constants[point] = constants_of(task, self.cycles)
        return 2 * rows <= 3 * self.batches * rows_of(cascade.tasks[point].results[0].shape)

    def _is_possible(self, point: int, task: TileTask) -> bool:
        """True if all readers use the same view of the result, and it has enough rows."""
        cascade, result = self.cascade, task.results[0]
        last = cascade.tasks[-1].results[0]
        if rows_of(result.shape) < cascade.stripes.parts or result.shape[0] != last.shape[0]:
            return False
        if any(cascade.start + point in self.dependences[user] for user in range(point, len(cascade.tasks))):
            return False
        for user, index in self.samples[0].propagation.readers.get(task.operation.result, ()):
            reader = cascade.tasks[user]
            if result.view.strides is not None or not same_rows(reader.operand(index), result):
                return False
        return True


class _Sample:
    """One stripe that stands for `weight` stripes. Lists are indexed by task."""

    def __init__(self, cascade: Cascade, number: int, weight: int, cycles: Cycles) -> None:
        self.cascade = cascade
        self.weight = weight
        self.cycles = cycles
        self.propagation = Propagation(cascade, number)
        count = len(cascade.tasks)
        self.compute = [0] * count
        self.scratch = [0] * count
        self.results = [0] * count
        self.stores = [0] * count
        self.loads = [0] * count
        self.operands = [0] * count
        """Bytes per lane of the operands that tiles load by themselves."""

    def add(self, point: int) -> int:
        """Prepend a task; return the number of rows that it computes."""
        task, propagation = self.cascade.tasks[point], self.propagation
        propagation.add(point)
        band = propagation.bands[(task.operation.result,)]
        tiles = propagation.tiles[point]
        box = band.box(task.results[0].shape)
        self.compute[point] = sum(self.cycles.compute(task, tile, task.phase(tile), task.boxes(tile)) for tile in tiles)
        self.scratch[point] = max(sum(item.bytes_per_lane for item in task.scratch(tile)) for tile in tiles)
        self.results[point] = task.results[0].lane_bytes(box.shape)
        self.stores[point] = self.cycles.store(task.results[0], box.shape) if self.cascade.written_back[point] else 0
        for index in propagation.by_tiles[point]:
            side = task.operand(index)
            shapes = [part.shape for tile in tiles if (part := task.boxes(tile)[index]) is not None]
            self.loads[point] += sum(self.cycles.load(side, shape) for shape in shapes)
            self.operands[point] += max(side.lane_bytes(shape) for shape in shapes)
        return band.rows[1] - band.rows[0]

    def around(self, start: int) -> tuple[int, int, list[int]]:
        """Return transfer cycles, bytes transferred, and live bytes per task, for the cascade that begins at task
        `start`.
        """
        propagation = self.propagation
        transfers, passing = sum(self.stores[start:]) + sum(self.loads[start:]), sum(self.operands[start:])
        live = [scratch + size for scratch, size in zip(self.scratch[start:], self.operands[start:], strict=True)]
        if self.cycles.end_with_transfers(self.cascade.tasks[start], propagation.tiles[start]):
            live = [size + self.results[start] for size in live]  # it is a stripe ahead
        for point in range(start, len(live) + start):
            uses = propagation.readers.get(self.cascade.tasks[point].operation.result, ())
            for at in range(point, max((user for user, _ in uses), default=point) + 1):
                live[at - start] += self.results[point]
            passing += self.results[point] if self.cascade.written_back[point] else 0
        for key, band in propagation.loaded().items():
            uses = [(key[1], key[2])] if len(key) > 1 else propagation.readers[key[0]]
            user, index = uses[0]
            side = self.cascade.tasks[user].operand(index)
            shape = band.shape(side.shape)
            size = side.lane_bytes(shape)
            transfers += self.cycles.load(side, shape)
            passing += size
            users = [use[0] for use in uses]
            for at in range(min(users), max(users) + 1):
                live[at - start] += size
        return transfers, passing, live


def constants_of(task: TileTask, cycles: Cycles) -> tuple[int, int]:
    """Return the bytes per lane of all constants of a task, and the cycles of loading them."""
    size = total = 0
    for group in task.constant_groups:
        seen: set[Hashable] = set()
        for tile in task.tiles:
            key = task.constant_key(group, tile)
            if key not in seen:
                seen.add(key)
                own, lanes = task.group_layout(group, tile)[0], task.group_lanes(group, tile)
                size += own
                total += cycles.block(own, lanes, group[0].broadcast)
    return size, total
