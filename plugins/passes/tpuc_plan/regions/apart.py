"""Find what several cores compute apart: cascades whose stripes they divide, and tiles of single operations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tpuc.api import Operation, Value

from tpuc_plan.regions.cascade_cost import CascadeCosts, constants_of, time_of
from tpuc_plan.regions.cascades import CascadeFinder, is_sound
from tpuc_plan.tasks.aliases import AliasSets
from tpuc_plan.tasks.plan import Stripes, TilePlan
from tpuc_plan.tasks.stripes import rows_of
from tpuc_plan.tasks.task import Task

_ROUNDS = (1, 2, 3, 4, 6, 8, 12, 16)
"""How many stripes each core may compute."""
_TRIES = 3
"""How many numbers of stripes are tried, from the smallest one that fits."""
ALONE, APART = 0, 1

Way = tuple[int, int, int, Stripes | None]
"""How a task was reached: kind and number of tasks before, kind from there on, and the stripes of a cascade."""


@dataclass(frozen=True)
class Costs:
    """Cycles by task: on one core (`alone`), its tiles on all cores (`apart`, with no plan for tasks that cost nothing
    outside of cascades), and of storing and loading what the plan for one core has in local memory before it
    (`borders`).
    """

    alone: Sequence[int]
    apart: Mapping[int, tuple[int, TilePlan | None]]
    borders: Sequence[int]


@dataclass(frozen=True)
class Found:
    """A cascade from a task on, and the cycles of each core: of computing without space to load what follows, and with
    it, of loading and storing values, and of loading constants.
    """

    start: int
    stripes: Stripes
    blocked: float
    overlapped: float
    transfers: float
    constants: float

    def time(self, constants: int = 100) -> float:
        """Estimate the time; this percentage of the constants is not loaded before."""
        return self.blocked + time_of(self.transfers + self.constants * constants / 100, self.overlapped)


class ApartFinder(CascadeFinder):
    """Searches the tasks of a module for runs that `cores` compute apart faster than one of them alone."""

    length = 24

    def __init__(
        self,
        tasks: Sequence[Task],
        live_out: Collection[Value],
        costs: CascadeCosts,
        aliases: AliasSets,
        budget: int,
        cores: int,
    ) -> None:
        super().__init__(tasks, live_out, costs, aliases, budget)
        self.cores = cores
        self._cascades: dict[int, Sequence[Found]] = {}

    def choose(self, costs: Costs, weight: int, constants: int) -> dict[Operation, TilePlan]:
        """Return the plans of operations to compute apart: the cheapest way through both kinds of runs, with `weight`
        percent of the borders' transfers, and `constants` percent of those of a cascade's constants.
        """
        borders = [cycles * weight / 100 for cycles in costs.borders]
        times: list[list[float]] = [[0.0, 0.0]]
        ways: list[list[Way]] = []
        for stop in range(1, len(self.tasks) + 1):
            own, streamed = costs.alone[stop - 1], costs.apart.get(stop - 1)
            options: list[list[tuple[float, Way]]] = [[], []]
            for kind, (before, cost) in ((ALONE, (stop - 1, own)), (APART, (stop - 1, streamed and streamed[0]))):
                if cost is not None:
                    options[kind] += _steps(times, borders, before, kind, cost, None)
            for found in self._ending_apart(stop):
                options[APART] += _steps(times, borders, found.start, APART, found.time(constants), found.stripes)
            options[APART] = options[APART] or _steps(times, borders, stop - 1, ALONE, own, None)
            best = [min(ways_to, key=lambda one: one[0]) for ways_to in options]
            times.append([time for time, _ in best])
            ways.append([way for _, way in best])
        return dict(self._plans(costs, ways, min((ALONE, APART), key=lambda kind: times[-1][kind])))

    def _plans(self, costs: Costs, ways: Sequence[Sequence[Way]], kind: int) -> Iterator[tuple[Operation, TilePlan]]:
        stop = len(ways)
        while stop > 0:
            before, start, own, stripes = ways[stop - 1][kind]
            if stripes is not None:
                cascade = self._cascade(start, stop, stripes)
                for task, plan in zip(cascade.tasks, cascade.plans(), strict=True):
                    yield task.operation, replace(plan, cores=self.cores)
            elif own == APART:
                plan = costs.apart[stop - 1][1]
                if plan is not None:
                    yield self.tasks[stop - 1].operation, plan
            stop, kind = start, before

    def _ending_apart(self, stop: int) -> Sequence[Found]:
        """Return the cascades that end before task `stop`."""
        if stop not in self._cascades:
            self._cascades[stop] = [*self._find_ending(stop)] if self.cut[stop - 1] is not None else []
        return self._cascades[stop]

    def _find_ending(self, stop: int) -> Iterator[Found]:
        last = self.cut[stop - 1]
        assert last is not None
        fewest, rows = 0, rows_of(last.results[0].shape)
        self._begin(stop)
        for start in range(stop - 1, max(stop - self.length, 0) - 1, -1):
            if self.cut[start] is None:
                return
            best: Found | None = None
            tried = 0
            for number in range(fewest, len(_ROUNDS)):
                parts = _ROUNDS[number] * self.cores
                if parts > rows or tried == _TRIES:
                    break
                stripes = Stripes(start, 1, parts, resident=parts > self.cores)
                estimate = self._estimate(start, stripes)
                if estimate is None:
                    continue
                fewest, tried = fewest if tried else number, tried + 1
                constants = sum(constants_of(task, self.cycles)[1] for task in self.cut[start:stop] if task is not None)
                others, blocked = (estimate.transfers - constants) / self.cores, estimate.blocked / self.cores
                found = Found(start, stripes, blocked, estimate.overlapped / self.cores, others, constants)
                if best is None or found.time() < best.time():
                    best = found if is_sound(self._cascade(start, stop, stripes)) else best
            if best is None:
                return
            yield best


def _steps(
    times: Sequence[Sequence[float]],
    borders: Sequence[float],
    start: int,
    kind: int,
    cost: float,
    stripes: Stripes | None,
) -> list[tuple[float, Way]]:
    """Return the ways of computing the tasks from `start` on in a kind of run, after either kind."""
    return [
        (times[start][before] + (borders[start] if before != kind else 0) + cost, (before, start, kind, stripes))
        for before in (ALONE, APART)
    ]
