"""Find cascades: consecutive ops that run faster if stripes of rows pass through them in local memory."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from tpuc.api import Value

from tpuc_plan.regions.cascade_cost import CascadeCosts, Estimate, IncrementalEstimate, ScheduleProfile, time_of
from tpuc_plan.tasks.aliases import AliasSets
from tpuc_plan.tasks.def_use import def_uses
from tpuc_plan.tasks.plan import Stripes
from tpuc_plan.tasks.steps import Step, Steps, TensorLoad
from tpuc_plan.tasks.stripes import Cascade, row_axis, rows_of
from tpuc_plan.tasks.task import Task, TileTask

_PARTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32)
"""Numbers of parts into which rows may be cut."""
_TRIES = 5
"""How many numbers of parts are tried, from the smallest one that fits."""


class _Baseline:
    """Costs of the plan without cascades: per task the cycles of transfers, compute, and stores, and the loads by
    value.
    """

    def __init__(self, count: int) -> None:
        self.transfers = [0] * count
        self.compute = [0] * count
        self.stores = [0] * count
        self.loads: dict[tuple[int, Value], int] = {}

    def add(self, point: int, step: Step, aliases: AliasSets) -> None:
        """Add a step of task `point`."""
        self.compute[point] += step.cycles
        self.transfers[point] += sum(item.cycles for item in (*step.loads, *step.stores))
        self.stores[point] += sum(store.cycles for store in step.stores)
        for load in step.loads:
            if isinstance(load, TensorLoad) and load.value is not None:
                key = (point, aliases.root(load.value))
                self.loads[key] = self.loads.get(key, 0) + load.cycles


class CascadeFinder:
    """Searches a region for cascades. `live_out`: roots of values that must be written to DDR. `budget`: bytes per lane
    that a cascade may use.
    """

    length = 12
    """Maximum number of operations in a cascade."""

    def __init__(
        self, tasks: Sequence[Task], live_out: Collection[Value], costs: CascadeCosts, aliases: AliasSets, budget: int
    ) -> None:
        self.tasks = tasks
        self.costs = costs
        self.cycles = costs.cycles
        self.budget = budget
        self.live_out = live_out
        self.aliases = aliases
        self.def_uses = def_uses(tasks, aliases)
        self.dependences = [
            {
                definition
                for operand in task.operation.operands
                for writer in aliases.writers(operand)
                if (definition := self._definition(writer)) is not None and writer is not aliases.root(operand)
            }
            for task in tasks
        ]
        """Per task, the tasks that write its operands under another root, so it can read them only from DDR."""
        self.cut = [_cut_for_stripes(task) if isinstance(task, TileTask) else None for task in tasks]
        self._estimates: dict[int, IncrementalEstimate] = {}
        self._impossible: set[int] = set()
        """Numbers of parts for which no cascade of any length that ends here is possible."""
        self._ending = _Ending(self, 0)

    def run(self, steps: Steps) -> list[Cascade]:
        """Return the cascades with the greatest estimated saving over `steps`, the plan without cascades."""
        before = _Baseline(len(self.tasks))
        points = {task.operation: point for point, task in enumerate(self.tasks)}
        for step in steps.steps:
            before.add(points[step.task.operation], step, self.aliases)
        refused: set[tuple[int, int, Stripes]] = set()
        while True:
            found = self._choose(before, refused)
            wrong = [cascade for cascade in found if not is_sound(cascade)]
            if not wrong:
                return found
            refused.update((one.start, one.start + len(one.tasks), one.stripes) for one in wrong)

    def others(self, cascade: Cascade) -> Iterator[Cascade]:
        """Yield the same tasks cut into fewer and into more stripes, if possible."""
        stop = cascade.start + len(cascade.tasks)
        at = _PARTS.index(cascade.stripes.parts)
        self._begin(stop)
        for parts in (*_PARTS[max(at - 1, 0) : at], *_PARTS[at + 1 : at + 2]):
            stripes = replace(cascade.stripes, parts=parts)
            estimate = self._estimate(cascade.start, stripes)
            other = None if estimate is None else self._cascade(cascade.start, stop, stripes, estimate.lane_bytes)
            if other is not None and is_sound(other):
                yield other

    def _choose(self, before: _Baseline, refused: AbstractSet[tuple[int, int, Stripes]]) -> list[Cascade]:
        """Choose cascades by dynamic programming from the first task on."""
        count = len(self.tasks)
        best = [0.0] * (count + 1)
        choice: list[tuple[int, Stripes, int] | None] = [None] * (count + 1)
        for stop in range(1, count + 1):
            best[stop] = best[stop - 1] + time_of(before.transfers[stop - 1], before.compute[stop - 1])
            if not before.stores[stop - 1] or self.cut[stop - 1] is None:
                continue
            for start, cost, stripes, lane_bytes in self._ending_at(stop, before, best):
                if best[start] + cost < best[stop] and (start, stop, stripes) not in refused:
                    best[stop] = best[start] + cost
                    choice[stop] = (start, stripes, lane_bytes)
        found: list[Cascade] = []
        stop = count
        while stop > 0:
            chosen = choice[stop]
            if chosen is None:
                stop -= 1
                continue
            start, stripes, lane_bytes = chosen
            found.append(self._cascade(start, stop, stripes, lane_bytes))
            stop = start
        return found[::-1]

    def _ending_at(
        self, stop: int, before: _Baseline, best: Sequence[float]
    ) -> Iterator[tuple[int, float, Stripes, int]]:
        """Yield start, estimated time, stripes, and bytes of the cascades that end before task `stop`.

        The longer a cascade is, the more parts it needs to fit, so the search starts with the number that the shorter
        one needed.
        """
        last = self.cut[stop - 1]
        assert last is not None
        most = bisect.bisect(_PARTS, rows_of(last.results[0].shape))  # no stripe without a row
        fewest = 0 if last.results[0].shape[0] > 1 else 1  # the whole would be no stripe
        self._begin(stop)
        for start in range(stop - 2, max(stop - self.length, 0) - 1, -1):
            if self.cut[start] is None:
                return
            transfers = sum(before.transfers[start:stop]) - self._saved(start, stop, before)
            if best[start] + time_of(transfers, sum(before.compute[start:stop])) >= best[stop]:
                continue
            elsewhere = self._elsewhere(start, stop, before)
            found, tried = None, 0
            for number in range(fewest, most):
                stripes = Stripes(start, 1, _PARTS[number])
                estimate = self._estimate(start, stripes)
                if estimate is None:
                    continue
                if not tried:
                    fewest = number
                tried += 1
                cost = estimate.time(elsewhere)
                if found is None or cost < found[1]:
                    found = (start, cost, stripes, estimate.lane_bytes)
                if tried == _TRIES:
                    break
            if found is None:
                return
            yield found

    def _saved(self, start: int, stop: int, before: _Baseline) -> int:
        """Upper bound of the transfer cycles that a cascade saves: values passed on, and values loaded more than
        once.
        """
        saved = 0
        read: dict[Value, list[int]] = {}
        made: set[Value] = set()
        for point, task in enumerate(self.tasks[start:stop], start):
            for value in dict.fromkeys(self.aliases.root(operand) for operand in task.operation.operands):
                cycles = before.loads.get((point, value), 0)
                if value in made:
                    saved += cycles
                else:
                    read.setdefault(value, []).append(cycles)
            made.update(task.operation.results)
            if not self.is_live_out(start, stop, task.operation.results[0]):
                saved += before.stores[point]
        return saved + sum(sum(cycles) - max(cycles) for cycles in read.values())

    # -- one cascade ---------------------------------------------------------------------------------------------------

    def _cascade(self, start: int, stop: int, stripes: Stripes, lane_bytes: int = 0) -> Cascade:
        tasks = [task for task in self.cut[start:stop] if task is not None]
        written_back = [self.is_live_out(start, stop, task.operation.result) for task in tasks]
        none = [frozenset[int]()] * len(tasks)
        return Cascade(tasks, stripes, written_back, self.aliases, none, start, lane_bytes)

    def is_live_out(self, start: int, stop: int, value: Value) -> bool:
        """True if a result of the cascade must go to DDR: it is a network output, or is read after the cascade."""
        uses = self.def_uses[value].uses
        return value in self.live_out or not uses or any(not start <= point < stop for point, _ in uses)

    def _estimate(self, start: int, stripes: Stripes) -> Estimate | None:
        """Return the cost of a cascade; None if it is impossible."""
        if stripes.parts in self._impossible:
            return None
        key = (self._ending.looks(start), self._ending.batches, stripes.batches, stripes.parts, stripes.resident)
        profile = self.costs.profile(key, self.budget, lambda: self._profile(start, stripes))
        if profile is None:
            self._impossible.add(stripes.parts)
            return None
        return profile.estimate(self.budget)

    def _profile(self, start: int, stripes: Stripes) -> ScheduleProfile | None:
        first, stop = self._ending.first, self._ending.stop
        if stripes.parts not in self._estimates:
            longest = self._cascade(first, stop, stripes)
            self._estimates[stripes.parts] = IncrementalEstimate(longest, self.dependences[first:stop], self.cycles)
        return self._estimates[stripes.parts].profile(start - first, self.budget)

    def _begin(self, stop: int) -> None:
        """Reset the state for cascades that end before task `stop`."""
        self._estimates = {}
        self._impossible = set()
        self._ending = _Ending(self, stop)

    def _definition(self, value: Value) -> int | None:
        """Return the task that defines a value."""
        item = self.def_uses.get(value)
        return item.definition[0] if item is not None and item.definition is not None else None

    def _elsewhere(self, start: int, stop: int, before: _Baseline) -> int:
        """Transfer cycles added to other tasks, because the cascade passes no values in local memory to or from
        them.
        """
        total = 0
        counted: set[int] = set()
        for task in self.tasks[start:stop]:
            for operand in task.operation.operands:
                made = self._definition(self.aliases.root(operand))
                if made is None or start <= made < stop or before.stores[made] or made in counted:
                    continue
                counted.add(made)
                source = self.tasks[made]
                if isinstance(source, TileTask):
                    total += self.cycles.store(source.results[0], source.results[0].shape)
        for point, task in enumerate(self.tasks[start:stop], start):
            if before.stores[point]:
                continue
            for user, index in self.def_uses[task.operation.result].uses:
                user_task = self.tasks[user]
                if not start <= user < stop and isinstance(user_task, TileTask):
                    side = user_task.facts.operands[index]
                    total += self.cycles.load(side, side.shape) if side is not None else 0
        return total


class _Ending:
    """The cascades that end before task `stop` and begin at task `first` or later. `batches`: of the largest
    results.
    """

    def __init__(self, finder: CascadeFinder, stop: int) -> None:
        self.finder = finder
        self.stop = stop
        self.first = max(stop - finder.length, 0)
        while any(task is None for task in finder.cut[self.first : stop]):
            self.first += 1
        cut = finder.cut[self.first : stop]
        self.batches = max((task.results[0].shape[0] for task in cut if task is not None), default=0)
        self._values: dict[Value, int] = {}
        self._numbers = {stop: -1}

    def looks(self, start: int) -> int:
        """Return the same number for cascades that differ only in their values."""
        for point in range(min(self._numbers) - 1, start - 1, -1):
            self._numbers[point] = self._number(point)
        return self._numbers[start]

    def _number(self, point: int) -> int:
        """Return the number of the cascade that begins at a task, from that of the cascade after the task."""
        finder, task = self.finder, self.finder.cut[point]
        assert task is not None
        values = [finder.aliases.root(value) for value in (*task.operation.operands, *task.operation.results)]
        numbers = tuple(self._values.setdefault(value, len(self._values)) for value in values)
        written = finder.is_live_out(point, self.stop, task.operation.result)
        readers = tuple(user - point for user in range(point, self.stop) if point in finder.dependences[user])
        rest = self._numbers[point + 1]
        return finder.costs.number((rest, finder.costs.kind(task), numbers, written, readers))


def is_sound(cascade: Cascade) -> bool:
    """True if every stripe can be computed."""
    try:
        for _ in cascade.all():
            pass
    except ValueError:
        return False
    return True


def _cut_for_stripes(task: TileTask) -> TileTask | None:
    """Cut the task along channels only, where one tile cannot have them all; None if no stripe can pass through it."""
    space, lmem = task.space, task.chip.lmem
    shape = task.results[0].shape
    rows = "nchw"[row_axis(shape)]
    if len(task.operation.results) != 1 or any({"n", rows} & {*constant.axes} for constant in task.facts.constants):
        return None
    sizes: dict[str, int] = {}
    for name, extent in (("n", shape[0]), (rows, rows_of(shape))):
        if extent > 1 and space.axis(name) is None:
            return None
    for axis in space.axes:
        sizes[axis.name] = axis.size
        if axis.limit and axis.size > axis.limit and axis.name != rows:
            if axis.name != "c" or not axis.splittable:
                return None
            sizes["c"] = axis.limit // lmem.lanes * lmem.lanes
    return task.with_sizes(sizes) if min(sizes.values()) > 0 else None
