"""Plans one stretch of tasks: views, what stays in local memory, and how each operation is cut."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from tpuc.api import DictAttr, IntegerAttr, LmemOverflow, Operation, UnitAttr, Value

from tpuc_passes.planning.keeping import Keeper, Kept
from tpuc_passes.planning.kernels import TILING, VIEW
from tpuc_passes.planning.places import ASSEMBLED, MERGED, Merge, Places, origin
from tpuc_passes.planning.program import Stretch, build_stretch, order_and_place
from tpuc_passes.planning.residency import FETCHED, HELD, KEPT, STORED, forget
from tpuc_passes.planning.runs import RunFinder, write_run
from tpuc_passes.planning.slice_cost import RunCosts
from tpuc_passes.planning.slicing import SLICED, Run
from tpuc_passes.planning.steps import Steps
from tpuc_passes.planning.task import Task, TileTask
from tpuc_passes.planning.tiling import choose_tiling, make_task
from tpuc_passes.planning.views import ViewChooser


@dataclass(frozen=True)
class Settings:
    """`share`: scratch and constants of a tile take at most one part in so many of local memory; `room`: percent of
    local memory for values that stay; `from_tail`: values stay within runs of operations, cut from the last one on;
    `sliced`: rows pass through runs of operations in slices where that saves transfers.
    """

    share: int = 12
    room: int = 94
    from_tail: bool = False
    sliced: bool = False


_MANY = tuple(Settings(share, room) for share in (12, 6, 24) for room in (94, 98, 85))
LEVELS = {
    1: (Settings(from_tail=True),),
    2: (Settings(), Settings(from_tail=True), Settings(sliced=True), Settings(room=98, sliced=True)),
    3: (Settings(from_tail=True), *_MANY, *(replace(settings, sliced=True) for settings in _MANY[:3])),
}
"""Plans that are made at each level; the fastest is taken."""
_PLAIN = frozenset(
    replace(settings, sliced=False) for level in LEVELS.values() for settings in level if settings.sliced
)
"""Plans that runs in slices are compared with."""
_SEARCHED = 3
"""From this level on the slices of the best plan are varied."""
_TRIALS = 24
"""Plans that are measured for that."""
_WORTH = 2
"""Percent by which the first plan with slices must be faster than those without for more of them to be made."""
_NARROWER = (80, 60)
"""Rooms that are tried where buffers of a plan with slices cannot be placed."""
CAREFUL = (Settings(room=80), Settings(room=60), Settings(room=0))
"""When the buffers of none of them can be placed, the first of these whose buffers can."""


class StretchPlanner:
    """Plans the tasks of one stretch; `choices[i]` is task i in each view. `leaving`: values that others read from DDR.
    `shared`: operands of operations that only share bytes.
    """

    def __init__(
        self,
        costs: RunCosts,
        choices: Sequence[Sequence[Task]],
        leaving: Sequence[Value],
        shared: Sequence[Value],
        merges: Sequence[Merge],
    ) -> None:
        self.costs = costs
        self.cycles = costs.cycles
        self.chip = self.cycles.chip
        self.leaving = leaving
        self.shared = shared
        outer = {id(part) for merge in merges for part, _ in merge.parts}
        made = {id(origin(value)) for options in choices for value in options[0].operation.results}
        self.merges = [merge for merge in merges if _is_plain(merge, outer) and _is_made_by(merge, made)]
        self.tasks = ViewChooser(choices, [*leaving, *shared], self.cycles).run()
        self._own: dict[Hashable, Mapping[str, int]] = {}
        self._measured: dict[Hashable, int | None] = {}
        self._steps: dict[Settings, Steps] = {}
        self._built: dict[Hashable, Steps] = {}
        self._runs: dict[Settings, Sequence[Run]] = {}
        self._written: Settings | None = None

    def run(self, opt: int, operations: Sequence[Operation]) -> int | None:
        """Write the plan of an optimisation level, 1 to 3. Returns its cycles, None if its buffers cannot be placed.

        `operations`: all of the function, whose marks say what shares bytes.
        """
        measured: list[tuple[int, int, Settings]] = []
        for number, settings in enumerate(LEVELS[opt]):
            if settings.sliced and not _slices_pay(measured):
                continue
            narrower = [replace(settings, room=room) for room in _NARROWER if settings.sliced and room < settings.room]
            for attempt in (settings, *narrower):
                if attempt.sliced and not self._find_runs(attempt, operations) and measured:
                    break  # it would be the plan without slices, which was measured before
                self._write(attempt, operations)
                cycles = self._measure(attempt, operations)
                if cycles is not None:
                    measured.append((cycles, number, attempt))
                    break
        if measured:
            fewest, _, best = min(measured, key=lambda entry: entry[:2])
            if best.sliced and opt >= _SEARCHED:
                return self._vary(best, fewest, operations)
            if best != self._written:
                self._write(best, operations)
            return fewest
        for settings in CAREFUL:
            self._write(settings, operations)
            cycles = self._measure(settings, operations)
            if cycles is not None:
                return cycles
        return None

    def _vary(self, settings: Settings, fewest: int, operations: Sequence[Operation]) -> int:
        """Leave each run out, or cut it into fewer or more slices, where the program then ends earlier; its cycles."""
        finder = self._finder(settings, operations)
        trials = 0
        for run in self._runs[settings]:
            current: Run | None = run
            for other in (None, *finder.others(run)):
                if trials == _TRIALS or current is None:
                    break
                trials += 1
                before = self._runs[settings]
                varied = [other if one is current else one for one in before]
                self._runs[settings] = [one for one in varied if one is not None]
                self._write(settings, operations)
                cycles = self._measure(settings, operations)
                if cycles is not None and cycles < fewest:
                    fewest, current = cycles, other
                else:
                    self._runs[settings] = before
        self._write(settings, operations)
        return fewest

    def _measure(self, settings: Settings, operations: Sequence[Operation]) -> int | None:
        """Cycles of the written plan, None when its buffers cannot be placed. Settings may lead to the same plan."""
        marks = self._marks()
        if marks not in self._measured:
            stretch = self._build(operations)
            if settings in _PLAIN:
                self._steps[settings] = self._built[marks] = stretch.steps
            try:
                self._measured[marks] = order_and_place(stretch, self.chip)[1]
            except LmemOverflow:
                self._measured[marks] = None
        return self._measured[marks]

    def _marks(self) -> Hashable:
        """All that is written of the plan."""
        names = (TILING, VIEW, SLICED, KEPT, FETCHED, HELD, STORED)
        marks = tuple(tuple(map(task.operation.extra_attributes.get, names)) for task in self.tasks)
        return marks, tuple(ASSEMBLED in merge.operation.extra_attributes for merge in self.merges)

    def _build(self, operations: Sequence[Operation]) -> Stretch:
        """The steps of the written plan."""
        base = self.chip.description.ddr_base
        tasks = [_as_written(task) for task in self.tasks]
        return build_stretch(tasks, self.cycles, Places(operations), lambda _: base)

    def _find_runs(self, settings: Settings, operations: Sequence[Operation]) -> Sequence[Run]:
        """Runs that gain by slices against the plan without any."""
        if settings in self._runs:
            return self._runs[settings]
        plain = replace(settings, sliced=False)
        if plain not in self._steps:
            self._write(plain, operations)
            marks = self._marks()
            if marks not in self._built:
                self._built[marks] = self._build(operations).steps
            self._steps[plain] = self._built[marks]
        self._runs[settings] = self._finder(settings, operations).run(self._steps[plain])
        return self._runs[settings]

    def _finder(self, settings: Settings, operations: Sequence[Operation]) -> RunFinder:
        room = self.chip.lmem.lane_bytes * settings.room // 100
        return RunFinder(self.tasks, [*self.leaving, *self.shared], self.costs, Places(operations), room)

    def _write(self, settings: Settings, operations: Sequence[Operation]) -> None:
        runs = self._find_runs(settings, operations) if settings.sliced else ()
        self._written = settings
        for task in self.tasks:
            forget(task.operation)
            for name in (VIEW, SLICED):
                task.operation.extra_attributes.pop(name, None)
        for merge in self.merges:
            merge.operation.extra_attributes.pop(ASSEMBLED, None)
        sliced = {id(task.operation) for run in runs for task in run.tasks}
        for task, plan in zip(self.tasks, self._keep(settings, runs), strict=True):
            if not isinstance(task, TileTask):
                continue
            if plan is None:
                if id(task.operation) not in sliced:
                    _write_tiling(task.operation, self._own_tiling(task))
                continue
            kept, residency = plan
            _write_cut(kept)
            residency.write(task.operation)
        for run in runs:
            for task in run.tasks:
                _write_cut(task)
            write_run(run)

    def _keep(self, settings: Settings, runs: Sequence[Run]) -> Sequence[Kept]:
        """What stays. Parts of a value that is assembled in DDR leave local memory, others need not."""
        if settings.room == 0:
            return [None] * len(self.tasks)
        merges = [] if settings.from_tail else self.merges
        limits = (settings.share, settings.room)
        if merges:
            merges = [*Keeper(self.tasks, self.leaving, self.cycles, merges, *limits, runs).assembled.values()]
        while True:
            inside = {id(part) for merge in merges for part, _ in merge.parts}
            leaving = [*self.leaving, *(value for value in self.shared if id(origin(value)) not in inside)]
            keeper = Keeper(self.tasks, leaving, self.cycles, merges, *limits, runs)
            before = len(keeper.assembled)
            plans = keeper.run(from_tail=settings.from_tail)
            merges = [*keeper.assembled.values()]
            if len(merges) == before:
                break
        for merge in merges:
            merge.operation.extra_attributes[ASSEMBLED] = UnitAttr()
        return plans

    def _own_tiling(self, task: TileTask) -> Mapping[str, int]:
        """The best tiling of an op that works from DDR to DDR; ops of one kind are cut alike."""
        node = task.node
        shapes = tuple((t.shape, t.storage) for t in (*node.operand_types, *node.result_types))
        key = (task.operation.op.name, shapes, task.kernel.tiling_key(node))
        if key not in self._own:
            self._own[key] = choose_tiling(make_task(task.operation, task.kernel, self.chip), self.cycles).sizes
        return self._own[key]


def _slices_pay(measured: Sequence[tuple[int, int, Settings]]) -> bool:
    """Are more plans with slices worth making? `measured`: cycles of plans so far."""
    sliced = [cycles for cycles, _, settings in measured if settings.sliced]
    plain = [cycles for cycles, _, settings in measured if not settings.sliced]
    return not sliced or not plain or (100 + _WORTH) * min(sliced) < 100 * min(plain)


def _as_written(task: Task) -> Task:
    """A task as its operation's attributes say that it is cut."""
    if not isinstance(task, TileTask):
        return task
    attributes = task.operation.extra_attributes
    sizes, view = attributes[TILING], attributes.get(VIEW)
    assert isinstance(sizes, DictAttr)
    number = view.value if isinstance(view, IntegerAttr) else 0
    if number != task.facts.view:
        task = make_task(task.operation, task.kernel, task.chip, number)
    return task.with_sizes({name: size.value for name, size in sizes.items if isinstance(size, IntegerAttr)})


def _write_cut(task: TileTask) -> None:
    _write_tiling(task.operation, task.sizes)
    if task.facts.view:
        task.operation.extra_attributes[VIEW] = IntegerAttr(task.facts.view)


def _is_plain(merge: Merge, outer: set[int]) -> bool:
    """A whole that is no part, of parts that are no wholes."""
    wholes = [part.defining is not None and MERGED in part.defining.extra_attributes for part, _ in merge.parts]
    return id(merge.whole) not in outer and not any(wholes)


def _is_made_by(merge: Merge, made: set[int]) -> bool:
    """Are all its parts results of one stretch? Others' merges are planned with their own."""
    return all(id(part) in made for part, _ in merge.parts)


def _write_tiling(operation: Operation, sizes: Mapping[str, int]) -> None:
    operation.extra_attributes[TILING] = DictAttr(
        tuple((name, IntegerAttr(size)) for name, size in sorted(sizes.items()))
    )
