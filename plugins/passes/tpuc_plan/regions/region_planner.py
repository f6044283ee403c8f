"""Plan one region: the view, residency, and tiling of each op."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from tpuc.api import LmemOverflow, Value

from tpuc_plan.regions.cascade_cost import CascadeCosts
from tpuc_plan.regions.cascades import CascadeFinder
from tpuc_plan.regions.lmem_allocator import LmemAllocator
from tpuc_plan.regions.region import Region, build_region, schedule_and_place
from tpuc_plan.tasks.aliases import AliasSets, Concat
from tpuc_plan.tasks.plan import Residency, TilePlan
from tpuc_plan.tasks.stripes import Cascade
from tpuc_plan.tasks.task import Task, TileTask
from tpuc_plan.tasks.tiling import PATIENCE, choose_tiling, faster_tiling
from tpuc_plan.tasks.views import ViewChooser


@dataclass(frozen=True)
class Settings:
    """Parameters of one plan. `scratch_fraction`: scratch and constants of a tile take at most this fraction (1/n) of
    local memory. `budget`: percent of local memory for resident values. `from_tail`: values are resident within
    groups of operations, cut from the last one on. `striped`: use cascades that save transfers. `patience`: see
    `choose_tiling`.
    """

    scratch_fraction: int = 12
    budget: int = 94
    from_tail: bool = False
    striped: bool = False
    patience: int = PATIENCE
    gain: int = 0
    """Percent by which the plan must beat those of the settings before."""


_ROOMY = Settings(budget=60, striped=True, gain=2)
"""Stripes that leave room to load ahead. For YOLOv5s in int8 they seem 1.4 % faster, but their instructions take 3.5 %
more time than those of the plan without stripes.
"""
_MANY = tuple(Settings(fraction, budget) for fraction in (12, 6, 24) for budget in (94, 98, 85))
FIRST_FIT = 0
"""The level without residency and with the first tiling that fits; it shows whether a plan exists."""
STREAMED = -1
"""The level without residency."""
LEVELS = {
    FIRST_FIT: (),
    STREAMED: (Settings(budget=0),),
    1: (Settings(from_tail=True),),
    2: (Settings(), Settings(from_tail=True), *(Settings(budget=budget, striped=True) for budget in (94, 98)), _ROOMY),
    3: (Settings(from_tail=True), *_MANY, *(replace(settings, striped=True) for settings in _MANY[:3])),
}
"""The plans that each level tries; the fastest is taken."""
_COARSER, _FEW_BYTES = Settings(scratch_fraction=3), 1 << 17
"""Additional setting from level 2 on, for chips with at most this many bytes in all lanes: tiles of a twelfth would be
many and small.
"""
_SEARCHED = 3
"""From this level on, the stripes of the best plan are varied."""
_TRIALS = 24
"""Maximum number of plans measured for that."""
_WORTH = 2
"""Percent by which the first striped plan must beat the plans without stripes to try more striped ones."""
_CLEARLY = 1
"""Percent by which streaming in chosen views must be faster: less than that, instructions may decide otherwise than the
schedule (YuNet in f16 would lose 0.4 %).
"""
_NARROWER = (80, 60)
"""Budgets in percent to try if the buffers of a striped plan cannot be placed."""
_CAREFUL = (Settings(budget=80), Settings(budget=60), Settings(budget=0))
"""Fallback settings if no other plan can be placed; the first that can be placed is taken."""


@dataclass(frozen=True)
class RegionPlan:
    """The plans of a region's tasks (None for moves in DDR and host functions), and the concatenations in local memory.

    `cycles`: total cycles; None before measurement, and if the buffers cannot be placed.
    """

    tasks: tuple[TilePlan | None, ...]
    lmem_concats: tuple[Value, ...] = ()
    cycles: int | None = None

    @property
    def is_striped(self) -> bool:
        """True if the plan has cascades."""
        return any(plan is not None and plan.stripes is not None for plan in self.tasks)


class RegionPlanner:
    """Plans a region. `choices[i]`: task i in each view. `live_out`: roots of values that are read from DDR elsewhere.
    `shared`: operands of operations that only share bytes. `by_lanes`: see `ViewChooser`.
    """

    def __init__(
        self,
        costs: CascadeCosts,
        choices: Sequence[Sequence[Task]],
        live_out: Collection[Value],
        shared: Sequence[Value],
        aliases: AliasSets,
        *,
        by_lanes: bool = False,
    ) -> None:
        self.costs = costs
        self.cycles = costs.cycles
        self.chip = self.cycles.chip
        self.choices = choices
        self.aliases = aliases
        self.live_out = frozenset(live_out)
        self.shared = frozenset(aliases.root(value) for value in shared)
        self.concats = list(self._possible_concats())
        outputs = self.live_out | self.shared
        self.tasks = ViewChooser(choices, outputs, aliases, self.cycles, by_lanes=by_lanes).run()
        self._streamed: dict[Hashable, TilePlan] = {}
        self._plain: dict[Settings, RegionPlan] = {}
        self._regions: dict[RegionPlan, Region] = {}
        self._measured: dict[RegionPlan, RegionPlan] = {}

    def run(self, level: int) -> RegionPlan:
        """Return the fastest plan of an optimization level."""
        if level == FIRST_FIT:
            return self._plan(Settings(budget=0, patience=0), ())
        best: tuple[int, RegionPlan, Settings, Sequence[Cascade]] | None = None
        measured: list[tuple[int, Settings]] = []
        for settings in self._settings(level):
            if settings.striped and not _stripes_pay(measured):
                continue
            for attempt in (settings, *_narrower(settings)):
                cascades = self._cascades(attempt)
                if attempt.striped and not cascades and measured:
                    break  # it would be the plan without stripes, which was measured before
                plan = self._measure(self._plan(attempt, cascades))
                if plan.cycles is not None:
                    measured.append((plan.cycles, attempt))
                    if best is None or 100 * plan.cycles < (100 - attempt.gain) * best[0]:
                        best = (plan.cycles, plan, attempt, cascades)
                    break
        if best is not None:
            _, plan, settings, cascades = best
            if settings.striped and level >= _SEARCHED:
                plan = self._vary(plan, settings, cascades)
            return self._in_chosen_views(plan, settings.patience)
        careful = (self._measure(self._plan(settings, ())) for settings in _CAREFUL)
        return next((plan for plan in careful if plan.cycles is not None), self._plan(_CAREFUL[-1], ()))

    def _settings(self, level: int) -> Sequence[Settings]:
        lmem = self.chip.lmem
        coarser = level >= 2 and lmem.lanes * lmem.lane_bytes <= _FEW_BYTES
        return (*LEVELS[level], _COARSER) if coarser else LEVELS[level]

    def _vary(self, best: RegionPlan, settings: Settings, cascades: Sequence[Cascade]) -> RegionPlan:
        """Drop each cascade, or cut it into fewer or more stripes, wherever that makes the program faster."""
        finder = self._finder(settings)
        trials = 0
        for cascade in cascades:
            current: Cascade | None = cascade
            for other in (None, *finder.others(cascade)):
                if trials == _TRIALS or current is None:
                    break
                trials += 1
                varied = [other if one is current else one for one in cascades]
                present = [one for one in varied if one is not None]
                plan = self._measure(self._plan(settings, present))
                if plan.cycles is not None and best.cycles is not None and plan.cycles < best.cycles:
                    best, current, cascades = plan, other, present
        return best

    def _measure(self, plan: RegionPlan) -> RegionPlan:
        """Return the plan with its cycles, None if its buffers cannot be placed. Different settings may lead to one
        plan, so results are cached.
        """
        if plan not in self._measured:
            try:
                cycles = schedule_and_place(self._region(plan), self.chip).cycles
            except LmemOverflow:
                cycles = None
            self._measured[plan] = replace(plan, cycles=cycles)
        return self._measured[plan]

    def _region(self, plan: RegionPlan) -> Region:
        """Return the steps of a plan; cached for plans without cascades, which serve as a baseline."""
        if plan in self._regions:
            return self._regions[plan]
        tasks = [self._task(point, task_plan) for point, task_plan in enumerate(plan.tasks)]
        concats = [concat for concat in self.concats if concat.whole in plan.lmem_concats]
        base = self.chip.description.ddr_base
        region = build_region(tasks, self.cycles, self.aliases, concats, lambda _: base)
        if not plan.is_striped:
            self._regions[plan] = region
        return region

    def _task(self, point: int, plan: TilePlan | None) -> Task:
        if plan is None:
            return self.tasks[point]
        task = self.choices[point][plan.view]
        assert isinstance(task, TileTask)
        return task.planned(plan)

    def _cascades(self, settings: Settings) -> Sequence[Cascade]:
        """Return the cascades that gain over the plan without any."""
        if not settings.striped:
            return ()
        plain = replace(settings, striped=False)
        return self._finder(settings).run(self._region(self._plan(plain, ())).steps)

    def _finder(self, settings: Settings) -> CascadeFinder:
        budget = self.chip.lmem.lane_bytes * settings.budget // 100
        return CascadeFinder(self.tasks, self.live_out | self.shared, self.costs, self.aliases, budget)

    def _plan(self, settings: Settings, cascades: Sequence[Cascade]) -> RegionPlan:
        if not cascades:
            settings = replace(settings, striped=False)
            if settings not in self._plain:
                self._plain[settings] = self._make(settings, ())
            return self._plain[settings]
        return self._make(settings, cascades)

    def _make(self, settings: Settings, cascades: Sequence[Cascade]) -> RegionPlan:
        striped = {cascade.start + index: plan for cascade in cascades for index, plan in enumerate(cascade.plans())}
        allocated, lmem_concats = self._allocate(settings, cascades)
        plans: list[TilePlan | None] = []
        for point, (task, resident) in enumerate(zip(self.tasks, allocated, strict=True)):
            if not isinstance(task, TileTask):
                plans.append(None)
            elif point in striped:
                plans.append(striped[point])
            else:
                plans.append(
                    self._stream(point, settings.patience) if resident is None else resident.plan(resident.residency)
                )
        return RegionPlan(tuple(plans), lmem_concats)

    def _allocate(
        self, settings: Settings, cascades: Sequence[Cascade]
    ) -> tuple[Sequence[TileTask | None], tuple[Value, ...]]:
        """Return the tasks that are not streamed, and the concatenations in local memory. Parts of a concatenation in
        DDR are written back; parts of one in local memory need not be.
        """
        if settings.budget == 0:
            return [None] * len(self.tasks), ()
        limits = (settings.scratch_fraction, settings.budget, cascades)
        concats: Sequence[Concat] = [] if settings.from_tail else self.concats
        if concats:
            first = LmemAllocator(self.tasks, self.live_out, self.aliases, self.cycles, concats, *limits)
            concats = [*first.lmem_concats.values()]
        while True:
            parts = {part for concat in concats for part, _ in concat.parts}
            outputs = self.live_out | (self.shared - parts)
            allocator = LmemAllocator(self.tasks, outputs, self.aliases, self.cycles, concats, *limits)
            before = len(allocator.lmem_concats)
            tasks = allocator.run(from_tail=settings.from_tail)
            concats = [*allocator.lmem_concats.values()]
            if len(concats) == before:
                return tasks, tuple(concat.whole for concat in concats)

    def _stream(self, point: int, patience: int, *, is_chosen: bool = False) -> TilePlan:
        """Return the best tiling of an operation that streams from DDR to DDR, in the view that is best for it alone;
        `is_chosen`: in the chosen one where that is faster. Operations that look alike share it.
        """
        first, chosen = self.choices[point][0], self.tasks[point]
        assert isinstance(first, TileTask)
        assert isinstance(chosen, TileTask)
        view = chosen.facts.view if is_chosen and patience else first.facts.view
        key = (first.facts.looks, view)
        if key not in self._streamed:
            tiled = choose_tiling(first, self.cycles, patience)
            if view != first.facts.view:
                tiled = faster_tiling(tiled, chosen, self.cycles, patience)
            self._streamed[key] = tiled.plan(Residency.streamed(len(first.results)))
        return self._streamed[key]

    def _in_chosen_views(self, plan: RegionPlan, patience: int) -> RegionPlan:
        """Return the plan with streamed operations in their chosen views, if it is clearly faster."""
        tasks = list(plan.tasks)
        for point, task_plan in enumerate(tasks):
            if task_plan is not None and task_plan == self._streamed.get(self._looks(point)):
                tasks[point] = self._stream(point, patience, is_chosen=True)
        other = self._measure(replace(plan, tasks=tuple(tasks), cycles=None))
        if other.cycles is None or plan.cycles is None:
            return plan
        return other if 100 * other.cycles < (100 - _CLEARLY) * plan.cycles else plan

    def _looks(self, point: int) -> Hashable:
        """The key of an operation that streams in its first view."""
        first = self.choices[point][0]
        return (first.facts.looks, first.facts.view) if isinstance(first, TileTask) else None

    def _possible_concats(self) -> Iterator[Concat]:
        """Yield concatenations that are not nested and whose parts are all produced in this region."""
        concats = self.aliases.concats
        joined = {concat.whole for concat in concats}
        parts = {part for concat in concats for part, _ in concat.parts}
        made = {value for options in self.choices for value in options[0].operation.results}
        for concat in concats:
            if concat.whole not in parts and all(part in made and part not in joined for part, _ in concat.parts):
                yield concat


def _stripes_pay(measured: Sequence[tuple[int, Settings]]) -> bool:
    """True if more striped plans are worth trying. `measured`: cycles of the plans so far."""
    striped = [cycles for cycles, settings in measured if settings.striped]
    plain = [cycles for cycles, settings in measured if not settings.striped]
    return not striped or not plain or (100 + _WORTH) * min(striped) < 100 * min(plain)


def _narrower(settings: Settings) -> list[Settings]:
    budgets = _NARROWER if settings.striped else ()
    return [replace(settings, budget=budget) for budget in budgets if budget < settings.budget]
