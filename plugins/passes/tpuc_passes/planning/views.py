"""Chooses, for operations that can be seen in several ways, the view that saves transfers. Of several kernels that is
weighed against what they compute.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tpuc.api import Value

from tpuc_passes.planning.aliases import AliasSets
from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.def_use import DefUse, def_uses
from tpuc_passes.planning.resident_tiling import compute_cycles, resident_tiling
from tpuc_passes.planning.task import Side, Task, TileTask

_SWEEPS = 3
"""Rounds over all tasks at most, so that neighbours that change in turn come to an end."""
_SCRATCH_FRACTION = 12
"""Of local memory that tiles are cut for."""


class ViewChooser:
    """`choices[i]`: task i in each of its views, the one that suits it alone first. `outputs`: roots of what goes to
    DDR.
    """

    def __init__(
        self, choices: Sequence[Sequence[Task]], outputs: Collection[Value], aliases: AliasSets, cycles: Cycles
    ) -> None:
        self.choices = choices
        self.outputs = outputs
        self.cycles = cycles
        self.def_uses = def_uses([options[0] for options in choices], aliases)
        self.of_task: list[list[Value]] = []
        for first, *_ in choices:
            operands = [aliases.root(operand) for operand in first.operation.operands]
            self.of_task.append([*operands, *first.operation.results])
        self._known: dict[tuple[Value, tuple[int, ...]], int] = {}
        self._computed: dict[tuple[int, int], int] = {}

    def run(self) -> list[Task]:
        """Every task in its best view."""
        if all(len(options) == 1 for options in self.choices):
            return [options[0] for options in self.choices]
        most = max(len(options) for options in self.choices)
        starts = ([min(number, len(options) - 1) for options in self.choices] for number in reversed(range(most)))
        best = min((self._improve(start) for start in starts), key=self._total)
        return [options[number] for options, number in zip(self.choices, best, strict=True)]

    def _improve(self, chosen: list[int]) -> list[int]:
        chosen = list(chosen)
        for _ in range(_SWEEPS):
            before = list(chosen)
            for point, options in enumerate(self.choices):
                if len(options) > 1:
                    chosen[point] = min(range(len(options)), key=lambda n, p=point: (self._around(chosen, p, n), n))
            if chosen == before:
                break
        return chosen

    def _total(self, chosen: Sequence[int]) -> int:
        computing = sum(self._compute(point, number) for point, number in enumerate(chosen))
        return self._cost(self.def_uses, chosen) + computing

    def _compute(self, point: int, number: int) -> int:
        """Half of the cycles of computing a task in a view, as transfers of others may run beside; 0 where one kernel
        does it in all of them.
        """
        options = self.choices[point]
        chosen = options[number]
        if not isinstance(chosen, TileTask) or len({one.kernel for one in options if isinstance(one, TileTask)}) < 2:
            return 0
        if (point, number) not in self._computed:
            cut = resident_tiling(chosen, _SCRATCH_FRACTION, self.cycles)
            self._computed[point, number] = compute_cycles(cut[0], self.cycles) // 2 if cut is not None else 0
        return self._computed[point, number]

    def _around(self, chosen: list[int], point: int, number: int) -> int:
        before, chosen[point] = chosen[point], number
        cost = self._cost(self.of_task[point], chosen) + self._compute(point, number)
        chosen[point] = before
        return cost

    def _cost(self, values: Collection[Value], chosen: Sequence[int]) -> int:
        """Cycles of the transfers of values that are not resident all the way."""
        total = 0
        for value in values:
            item = self.def_uses[value]
            places = item.uses if item.definition is None else (item.definition, *item.uses)
            key = (value, tuple(chosen[point] for point, _ in places))
            if key not in self._known:
                self._known[key] = self._transfers(value, item, chosen)
            total += self._known[key]
        return total

    def _transfers(self, value: Value, item: DefUse, chosen: Sequence[int]) -> int:
        source: Side | None = None
        if item.definition is not None and (task := self._task(item.definition[0], chosen)) is not None:
            source = task.results[item.definition[1]]
        total = 0
        stored = value in self.outputs
        for point, index in item.uses:
            task = self._task(point, chosen)
            side = task.facts.operands[index] if task is not None else None
            if side is None or side != source:
                stored = True
                total += self.cycles.load(side, side.shape) if side is not None else 0
        return total + (self.cycles.store(source, source.shape) if stored and source is not None else 0)

    def _task(self, point: int, chosen: Sequence[int]) -> TileTask | None:
        task = self.choices[point][chosen[point]]
        return task if isinstance(task, TileTask) else None
