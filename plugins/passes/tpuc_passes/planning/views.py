"""Chooses, for kernels that can see their tensors in several ways, the view that saves transfers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tpuc.api import Box, Value, View

from tpuc_passes.planning.aliases import AliasSets
from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.task import Task, TileTask

_SWEEPS = 3
"""Rounds over all tasks at most, so that neighbours that change in turn come to an end."""


@dataclass
class _Flow:
    """A value: the task and result index that make it, and the tasks and operand indices that use it. `costs`: by the
    views of the tasks at its `points`.
    """

    made: tuple[int, int] | None = None
    uses: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    is_output: bool = False
    costs: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])

    @cached_property
    def points(self) -> tuple[int, ...]:
        """The tasks that make and use it, known once all are entered."""
        return tuple(point for point, _ in (*((self.made,) if self.made else ()), *self.uses))


class ViewChooser:
    """`choices[i]`: task i in each of its views, the one that suits it alone first. `outputs`: roots of what goes to
    DDR.
    """

    def __init__(
        self, choices: Sequence[Sequence[Task]], outputs: Collection[Value], aliases: AliasSets, cycles: Cycles
    ) -> None:
        self.choices = choices
        self.cycles = cycles
        self.flows: dict[Value, _Flow] = {}
        self.of_task: list[list[_Flow]] = [[] for _ in choices]
        for point, (first, *_) in enumerate(choices):
            operation = first.operation
            for index, operand in enumerate(operation.operands):
                flow = self.flows.setdefault(aliases.root(operand), _Flow())
                flow.uses.append((point, index))
                self.of_task[point].append(flow)
            for index, value in enumerate(operation.results):
                flow = self.flows.setdefault(value, _Flow())
                flow.made = (point, index)
                flow.is_output = value in outputs
                self.of_task[point].append(flow)

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

    def _around(self, chosen: list[int], point: int, number: int) -> int:
        before, chosen[point] = chosen[point], number
        cost = sum(self._cost(flow, chosen) for flow in self.of_task[point])
        chosen[point] = before
        return cost

    def _total(self, chosen: list[int]) -> int:
        return sum(self._cost(flow, chosen) for flow in self.flows.values())

    def _cost(self, flow: _Flow, chosen: Sequence[int]) -> int:
        """Cycles of the transfers of a value that does not stay in local memory all the way."""
        views = tuple(chosen[point] for point in flow.points)
        if views not in flow.costs:
            flow.costs[views] = self._transfers(flow, chosen)
        return flow.costs[views]

    def _transfers(self, flow: _Flow, chosen: Sequence[int]) -> int:
        source = self._side(flow.made, chosen, result=True)
        total = 0
        leaves = flow.is_output
        for use in flow.uses:
            task, side = self._side(use, chosen, result=False)
            if side is None or side != source[1]:
                leaves = True
                if task is not None and side is not None:
                    total += self.cycles.load(task, use[1], Box((0, 0, 0, 0), side[0].shape))
        if leaves and source[0] is not None and source[1] is not None and flow.made is not None:
            total += self.cycles.store(source[0], flow.made[1], Box((0, 0, 0, 0), source[1][0].shape))
        return total

    def _side(
        self, place: tuple[int, int] | None, chosen: Sequence[int], *, result: bool
    ) -> tuple[TileTask | None, tuple[View, str] | None]:
        if place is None:
            return None, None
        task = self.choices[place[0]][chosen[place[0]]]
        if not isinstance(task, TileTask):
            return None, None
        views = task.space.results if result else task.space.operands
        layouts = task.layouts.results if result else task.layouts.operands
        view = views[place[1]]
        return task, (view, layouts[place[1]]) if view is not None else None
