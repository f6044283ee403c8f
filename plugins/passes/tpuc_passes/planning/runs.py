"""Finds runs of operations that gain when slices of rows pass through them in local memory."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from tpuc.api import Box, Value, View

from tpuc_passes.planning.places import Places, origin
from tpuc_passes.planning.residency import Residency
from tpuc_passes.planning.slice_cost import Estimate, Followed, Growth, RunCosts, time_of
from tpuc_passes.planning.slicing import Run, Slicing
from tpuc_passes.planning.steps import Step, Steps, TensorLoad
from tpuc_passes.planning.task import Task, TileTask

_LENGTH = 12
"""Operations of a run at most."""
_PARTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32)
"""Numbers of slices of rows that are tried."""
_TRIES = 5
"""Numbers of slices that are tried from the smallest on with which a run fits."""


class _Plan:
    """The plan without runs: per task cycles of transfers, of computing and of its stores, and of the loads of each
    value by its `id`.
    """

    def __init__(self, count: int) -> None:
        self.transfers = [0] * count
        self.compute = [0] * count
        self.stores = [0] * count
        self.loads: dict[tuple[int, int], int] = {}

    def add(self, point: int, step: Step) -> None:
        """Take in a step of task `point`."""
        self.compute[point] += step.cycles
        self.transfers[point] += sum(item.cycles for item in (*step.loads, *step.stores))
        self.stores[point] += sum(store.cycles for store in step.stores)
        for load in step.loads:
            if isinstance(load, TensorLoad) and load.value is not None:
                key = (point, id(origin(load.value)))
                self.loads[key] = self.loads.get(key, 0) + load.cycles


@dataclass
class _Value:
    """Where a value is made and used."""

    value: Value
    made: int | None = None
    uses: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


class RunFinder:
    """`leaving`: values that must go to DDR. `places`: which values share bytes there. `room`: bytes per lane that runs
    may take.
    """

    def __init__(
        self, tasks: Sequence[Task], leaving: Sequence[Value], costs: RunCosts, places: Places, room: int
    ) -> None:
        self.tasks = tasks
        self.costs = costs
        self.cycles = costs.cycles
        self.room = room
        self.leaving = {id(origin(value)) for value in leaving}
        self.values: dict[int, _Value] = {}
        for point, task in enumerate(tasks):
            for index, operand in enumerate(task.operation.operands):
                value = origin(operand)
                self.values.setdefault(id(value), _Value(value)).uses.append((point, index))
            for value in task.operation.results:
                self.values.setdefault(id(value), _Value(value)).made = point
        makers = {id(value): point for point, task in enumerate(tasks) for value in task.operation.results}
        self.behind = [
            {
                makers[id(writer)]
                for operand in task.operation.operands
                for writer in places.writers(operand)
                if id(writer) in makers and writer is not origin(operand)
            }
            for task in tasks
        ]
        """Per task those that write its operands but as another value, so that it can only read them from DDR."""
        self.cut = [_cut_for_slices(task) if isinstance(task, TileTask) else None for task in tasks]
        self._growing: dict[int, Growth] = {}
        self._impossible: set[int] = set()
        """Parts into which no run that ends here can be cut, however far it reaches back from where that was seen."""
        self._ending = _Ending(self, 0)

    def run(self, steps: Steps) -> list[Run]:
        """The runs that save most by their estimates, against the steps of a plan without runs."""
        before = _Plan(len(self.tasks))
        points = {id(task.operation): point for point, task in enumerate(self.tasks)}
        for step in steps.steps:
            before.add(points[id(step.task.operation)], step)
        refused: set[tuple[int, int, Slicing]] = set()
        while True:
            found = self._choose(before, refused)
            wrong = [run for run in found if not _is_sound(run)]
            if not wrong:
                return found
            refused.update((run.start, run.start + len(run.tasks), run.slicing) for run in wrong)

    def others(self, run: Run) -> Iterator[Run]:
        """The same tasks in fewer and in more slices, where that is possible."""
        stop = run.start + len(run.tasks)
        at = _PARTS.index(run.slicing.parts)
        self._begin(stop)
        for parts in (*_PARTS[max(at - 1, 0) : at], *_PARTS[at + 1 : at + 2]):
            slicing = replace(run.slicing, parts=parts)
            estimate = self._estimate(run.start, slicing)
            other = None if estimate is None else self._run(run.start, stop, slicing, estimate.need)
            if other is not None and _is_sound(other):
                yield other

    def _choose(self, before: _Plan, refused: AbstractSet[tuple[int, int, Slicing]]) -> list[Run]:
        """By dynamic programming from the first task on."""
        count = len(self.tasks)
        best = [0.0] * (count + 1)
        choice: list[tuple[int, Slicing, int] | None] = [None] * (count + 1)
        for stop in range(1, count + 1):
            best[stop] = best[stop - 1] + time_of(before.transfers[stop - 1], before.compute[stop - 1])
            if not before.stores[stop - 1] or self.cut[stop - 1] is None:
                continue
            for start, cost, slicing, need in self._ending_at(stop, before, best):
                if best[start] + cost < best[stop] and (start, stop, slicing) not in refused:
                    best[stop] = best[start] + cost
                    choice[stop] = (start, slicing, need)
        found: list[Run] = []
        stop = count
        while stop > 0:
            chosen = choice[stop]
            if chosen is None:
                stop -= 1
                continue
            start, slicing, need = chosen
            found.append(self._run(start, stop, slicing, need))
            stop = start
        return found[::-1]

    def _ending_at(self, stop: int, before: _Plan, best: Sequence[float]) -> Iterator[tuple[int, float, Slicing, int]]:
        """Start, estimated time, slicing and bytes of the runs that end before a task.

        The further a run reaches back, the more parts it takes to fit: those that were too few before are not tried.
        """
        last = self.cut[stop - 1]
        assert last is not None
        most = bisect.bisect(_PARTS, last.space.results[0].shape[2])  # no slice without a row
        fewest = 0 if last.space.results[0].shape[0] > 1 else 1  # a single slice would be no slice
        self._begin(stop)
        for start in range(stop - 2, max(stop - _LENGTH, 0) - 1, -1):
            if self.cut[start] is None:
                return
            transfers = sum(before.transfers[start:stop]) - self._saved(start, stop, before)
            if best[start] + time_of(transfers, sum(before.compute[start:stop])) >= best[stop]:
                continue
            elsewhere = self._elsewhere(start, stop, before)
            found, tried = None, 0
            for number in range(fewest, most):
                slicing = Slicing(start, 1, _PARTS[number])
                estimate = self._estimate(start, slicing)
                if estimate is None:
                    continue
                if not tried:
                    fewest = number
                tried += 1
                cost = estimate.time(elsewhere)
                if found is None or cost < found[1]:
                    found = (start, cost, slicing, estimate.need)
                if tried == _TRIES:
                    break
            if found is None:
                return
            yield found

    def _saved(self, start: int, stop: int, before: _Plan) -> int:
        """Cycles of transfers that a run cannot save more of: of what it hands on, and of what it reads repeatedly."""
        saved = 0
        read: dict[int, list[int]] = {}
        made: set[int] = set()
        for point, task in enumerate(self.tasks[start:stop], start):
            for key in {id(origin(operand)) for operand in task.operation.operands}:
                cycles = before.loads.get((point, key), 0)
                if key in made:
                    saved += cycles
                else:
                    read.setdefault(key, []).append(cycles)
            made.update(id(value) for value in task.operation.results)
            if not self.leaves(start, stop, task.operation.results[0]):
                saved += before.stores[point]
        return saved + sum(sum(cycles) - max(cycles) for cycles in read.values())

    # -- one run -------------------------------------------------------------------------------------------------------

    def _run(self, start: int, stop: int, slicing: Slicing, need: int = 0) -> Run:
        tasks = [task for task in self.cut[start:stop] if task is not None]
        stored = [self.leaves(start, stop, task.operation.result) for task in tasks]
        return Run(tasks, slicing, [frozenset[int]()] * len(tasks), stored, start, need)

    def leaves(self, start: int, stop: int, value: Value) -> bool:
        key = id(value)
        uses = self.values[key].uses
        return key in self.leaving or not uses or any(not start <= point < stop for point, _ in uses)

    def _estimate(self, start: int, slicing: Slicing) -> Estimate | None:
        """What a run would cost; None where it is impossible."""
        if slicing.parts in self._impossible:
            return None
        key = (self._ending.looks(start), self._ending.batches, slicing.batches, slicing.parts)
        followed = self.costs.follow(key, self.room, lambda: self._follow(start, slicing))
        if followed is None:
            self._impossible.add(slicing.parts)
            return None
        return followed.estimate(self.room)

    def _follow(self, start: int, slicing: Slicing) -> Followed | None:
        first, stop = self._ending.first, self._ending.stop
        if slicing.parts not in self._growing:
            longest = self._run(first, stop, slicing)
            self._growing[slicing.parts] = Growth(longest, self.behind[first:stop], self.cycles)
        return self._growing[slicing.parts].follow(start - first, self.room)

    def _begin(self, stop: int) -> None:
        """Runs that end before a task follow."""
        self._growing = {}
        self._impossible = set()
        self._ending = _Ending(self, stop)

    def _elsewhere(self, start: int, stop: int, before: _Plan) -> int:
        """Cycles of transfers that others make because the run does not hand on values in local memory."""
        total = 0
        seen: set[int] = set()
        for task in self.tasks[start:stop]:
            for operand in task.operation.operands:
                item = self.values[id(origin(operand))]
                made = item.made
                if made is None or start <= made < stop or before.stores[made] or made in seen:
                    continue
                seen.add(made)
                maker = self.tasks[made]
                if isinstance(maker, TileTask):
                    total += self.cycles.store(maker, 0, _whole(maker.space.results[0]))
        for point, task in enumerate(self.tasks[start:stop], start):
            if before.stores[point]:
                continue
            for user, index in self.values[id(task.operation.result)].uses:
                reader = self.tasks[user]
                if not start <= user < stop and isinstance(reader, TileTask):
                    view = reader.space.operands[index]
                    total += self.cycles.load(reader, index, _whole(view)) if view is not None else 0
        return total


class _Ending:
    """Runs that end before task `stop`, from task `first` on at most; `batches`: of the largest results in there."""

    def __init__(self, finder: RunFinder, stop: int) -> None:
        self.finder = finder
        self.stop = stop
        self.first = max(stop - _LENGTH, 0)
        while any(task is None for task in finder.cut[self.first : stop]):
            self.first += 1
        cut = finder.cut[self.first : stop]
        self.batches = max((task.space.results[0].shape[0] for task in cut if task is not None), default=0)
        self._values: dict[int, int] = {}
        self._numbers = {stop: -1}

    def looks(self, start: int) -> int:
        """Equal for runs that differ in values alone."""
        for point in range(min(self._numbers) - 1, start - 1, -1):
            self._numbers[point] = self._number(point)
        return self._numbers[start]

    def _number(self, point: int) -> int:
        """Of the run from a task on, by that of the run behind the task."""
        finder, task = self.finder, self.finder.cut[point]
        assert task is not None
        values = [id(origin(value)) for value in (*task.operation.operands, *task.operation.results)]
        numbers = tuple(self._values.setdefault(value, len(self._values)) for value in values)
        stored = finder.leaves(point, self.stop, task.operation.result)
        behind = tuple(user - point for user in range(point, self.stop) if point in finder.behind[user])
        rest = self._numbers[point + 1]
        return finder.costs.number((rest, finder.costs.kind(task), numbers, stored, behind))


def write_run(run: Run) -> None:
    """Note a run on its operations."""
    for task, stored in zip(run.tasks, run.stored, strict=True):
        run.slicing.write(task.operation)
        operands = enumerate(task.operation.operands)
        kept = frozenset(index for index, operand in operands if id(origin(operand)) in run.makers)
        Residency(kept, frozenset(), frozenset(), frozenset((0,) if stored else ())).write(task.operation)


def _is_sound(run: Run) -> bool:
    """Can all slices be computed?"""
    try:
        for _ in run.slices():
            pass
    except ValueError:
        return False
    return True


def _whole(view: View) -> Box:
    return Box((0, 0, 0, 0), view.shape)


def _cut_for_slices(task: TileTask) -> TileTask | None:
    """The task cut along channels alone, where one tile may not have all; None where it cannot be sliced."""
    space, lmem = task.space, task.chip.lmem
    if len(task.operation.results) != 1 or any({"n", "h"} & {*constant.axes} for constant in task.facts.constants):
        return None
    sizes: dict[str, int] = {}
    for name, extent in zip("nh", (space.results[0].shape[0], space.results[0].shape[2]), strict=True):
        if extent > 1 and space.axis(name) is None:
            return None
    for axis in space.axes:
        sizes[axis.name] = axis.size
        if axis.limit and axis.size > axis.limit and axis.name != "h":
            if axis.name != "c" or not axis.splittable:
                return None
            sizes["c"] = axis.limit // lmem.lanes * lmem.lanes
    return task.with_sizes(sizes) if min(sizes.values()) > 0 else None
