"""Choose the view of each op that saves transfers; between different kernels, compute time counts too."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tpuc.api import Value

from tpuc_plan.tasks.aliases import AliasSets
from tpuc_plan.tasks.cost import Cycles
from tpuc_plan.tasks.def_use import def_uses
from tpuc_plan.tasks.resident_tiling import compute_cycles, resident_tiling
from tpuc_plan.tasks.task import Side, Task, TileTask

_SWEEPS = 3
"""Maximum number of rounds over all tasks, so that neighbors that alternate come to an end."""
_SCRATCH_FRACTION = 12
"""Tiles are cut to 1/n of local memory for the compute estimate."""


def _may_save_transfers(task: Task) -> bool:
    return not (isinstance(task, TileTask) and task.space.is_wider)


class ViewChooser:
    """Chooses one view per task. `choices[i]`: task i in each view, the one that is best for it alone first. `outputs`:
    roots of values that go to DDR. `by_lanes`: also count the compute time of views that occupy different numbers of
    lanes, which is worth transfers where channels are few; without it, views that serve only that are left out.
    """

    def __init__(
        self,
        choices: Sequence[Sequence[Task]],
        outputs: Collection[Value],
        aliases: AliasSets,
        cycles: Cycles,
        *,
        by_lanes: bool = False,
    ) -> None:
        self.choices = choices if by_lanes else [[*filter(_may_save_transfers, options)] for options in choices]
        self.by_lanes = by_lanes
        self.outputs = outputs
        self.cycles = cycles
        self.def_uses = def_uses([options[0] for options in choices], aliases)
        self.of_task: list[list[Value]] = []
        for first, *_ in choices:
            operands = [aliases.root(operand) for operand in first.operation.operands]
            self.of_task.append([*operands, *first.operation.results])
        self.of_value: dict[tuple[Value, int], list[int]] = {}
        for value, item in self.def_uses.items():
            for point, index in item.uses:
                self.of_value.setdefault((value, point), []).append(index)
        self._mismatches: dict[Value, int] = {}
        self._known: dict[tuple[Value, tuple[int, ...]], int] = {}
        self._computed: dict[tuple[int, int], int] = {}

    def run(self) -> list[Task]:
        """Return every task in its best view."""
        if all(len(options) == 1 for options in self.choices):
            return [options[0] for options in self.choices]
        most = max(len(options) for options in self.choices)
        starts = ([min(number, len(options) - 1) for options in self.choices] for number in reversed(range(most)))
        best = min((self._improve(start) for start in starts), key=self._total)
        return [options[number] for options, number in zip(self.choices, best, strict=True)]

    def _improve(self, chosen: list[int]) -> list[int]:
        chosen = list(chosen)
        self._mismatches = {value: self._count(value, item.uses, chosen) for value, item in self.def_uses.items()}
        for _ in range(_SWEEPS):
            before = list(chosen)
            for point, options in enumerate(self.choices):
                if len(options) > 1:
                    best = min(range(len(options)), key=lambda n, p=point: (self._around(chosen, p, n), n))
                    self._choose(chosen, point, best)
            if chosen == before:
                break
        return chosen

    def _total(self, chosen: Sequence[int]) -> int:
        computing = sum(self._compute(point, number) for point, number in enumerate(chosen))
        return self._cost(self.def_uses, chosen) + computing

    def _compute(self, point: int, number: int) -> int:
        """Half of the compute cycles of a task in a view, since transfers may overlap; 0 if they do not count."""
        options = self.choices[point]
        chosen = options[number]
        if not isinstance(chosen, TileTask) or not self._differ(options):
            return 0
        if (point, number) not in self._computed:
            cut = resident_tiling(chosen, _SCRATCH_FRACTION, self.cycles)
            self._computed[point, number] = compute_cycles(cut[0], self.cycles) // 2 if cut is not None else 0
        return self._computed[point, number]

    def _differ(self, options: Sequence[Task]) -> bool:
        """True if the compute times of a task's views count."""
        tasks = [one for one in options if isinstance(one, TileTask)]
        lanes = self.cycles.chip.lmem.lanes if self.by_lanes else 0
        return len({(one.kernel, min(one.results[0].shape[1], lanes)) for one in tasks}) > 1

    def _choose(self, chosen: list[int], point: int, number: int) -> None:
        """Select a view for a task, and update the counts of mismatching uses."""
        values = dict.fromkeys(self.of_task[point])
        before = {value: self._count(value, self._own(value, point), chosen) for value in values}
        chosen[point] = number
        for value in values:
            if self._defines(value, point):
                self._mismatches[value] = self._count(value, self.def_uses[value].uses, chosen)
            else:
                self._mismatches[value] += self._count(value, self._own(value, point), chosen) - before[value]

    def _around(self, chosen: list[int], point: int, number: int) -> int:
        """Cycles of a task in a view and of the transfers that depend on it. The cost of a value with many readers is
        updated incrementally, not recomputed for each reader.
        """
        others = [
            0
            if self._defines(value, point)
            else self._mismatches[value] - self._count(value, self._own(value, point), chosen)
            for value in self.of_task[point]
        ]
        before, chosen[point] = chosen[point], number
        cost = self._compute(point, number)
        for value, count in zip(self.of_task[point], others, strict=True):
            if self._defines(value, point):
                cost += self._cost([value], chosen)
            else:
                cost += self._transfers(value, self._own(value, point), chosen, stored=count > 0)
        chosen[point] = before
        return cost

    def _defines(self, value: Value, point: int) -> bool:
        definition = self.def_uses[value].definition
        return definition is not None and definition[0] == point

    def _own(self, value: Value, point: int) -> Sequence[tuple[int, int]]:
        """Return the uses of a value by one task."""
        return [(point, index) for index in self.of_value.get((value, point), ())]

    def _count(self, value: Value, uses: Sequence[tuple[int, int]], chosen: Sequence[int]) -> int:
        """Count the uses whose view of a value differs from its definition's."""
        source = self._source(value, chosen)
        return sum(self._is_other(use, source, chosen) for use in uses)

    def _is_other(self, use: tuple[int, int], source: Side | None, chosen: Sequence[int]) -> bool:
        task = self._task(use[0], chosen)
        side = None if task is None else task.facts.operands[use[1]]
        return side is None or not side.agrees(source)

    def _source(self, value: Value, chosen: Sequence[int]) -> Side | None:
        definition = self.def_uses[value].definition
        task = None if definition is None else self._task(definition[0], chosen)
        return None if task is None or definition is None else task.results[definition[1]]

    def _cost(self, values: Collection[Value], chosen: Sequence[int]) -> int:
        """Transfer cycles of values that are not resident for all their uses."""
        total = 0
        for value in values:
            item = self.def_uses[value]
            places = item.uses if item.definition is None else (item.definition, *item.uses)
            key = (value, tuple(chosen[point] for point, _ in places))
            if key not in self._known:
                self._known[key] = self._transfers(value, item.uses, chosen)
            total += self._known[key]
        return total

    def _transfers(
        self, value: Value, uses: Sequence[tuple[int, int]], chosen: Sequence[int], stored: bool = False
    ) -> int:
        """Cycles of loading a value for these uses, and of storing it if a use needs that or it is `stored` anyway."""
        source = self._source(value, chosen)
        total = 0
        stored = stored or value in self.outputs
        for point, index in uses:
            task = self._task(point, chosen)
            side = task.facts.operands[index] if task is not None else None
            if side is None or not side.agrees(source):
                stored = True
                total += self.cycles.load(side, side.shape) if side is not None else 0
        return total + (self.cycles.store(source, source.shape) if stored and source is not None else 0)

    def _task(self, point: int, chosen: Sequence[int]) -> TileTask | None:
        task = self.choices[point][chosen[point]]
        return task if isinstance(task, TileTask) else None
