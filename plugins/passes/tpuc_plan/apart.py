"""Plan operations that several cores compute apart, where that is faster than one core alone.

Between such operations, runs of others stay on one core, with their values in local memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, product

from tpuc.api import Engine, LmemOverflow, Operation, Timeline, Value
from tpuc.api.boundary import states_of

from tpuc_plan.module_planner import ModulePlanner
from tpuc_plan.regions.apart import ApartFinder, Costs
from tpuc_plan.regions.cascade_cost import CascadeCosts
from tpuc_plan.regions.planned import PlannedFunction
from tpuc_plan.tasks.cost import Cycles
from tpuc_plan.tasks.plan import ConcatAlias, Plan, SliceView, TilePlan
from tpuc_plan.tasks.task import HostTask, TileTask

_WEIGHTS = (100, 40, 0)
"""Percent of the transfers between both kinds of runs that plans are made for: how much of them overlaps with other
work is known only from the real program.
"""
_CONSTANTS = (100, 0)
"""The same for the constants of cascades, which may be loaded before."""
_BUDGET = 94
"""Percent of local memory for the values of a cascade."""


def plan_apart(planner: ModulePlanner, plan: Plan) -> Plan:
    """Return the fastest plan for the planner's cores; `plan` if nothing is faster."""
    chip, timelines = planner.chip, planner.timelines_of(plan)
    planned = planner.planned(plan)
    if len(timelines) != 1 or states_of(planner.module) or any(isinstance(one, HostTask) for one in planned.tasks):
        return plan
    cycles = planner.costs.cycles.by((chip.shared_profile,)) if chip.shared_profile else planner.costs.cycles
    timeline, operations = timelines[0]
    pairs = zip(planner.module.main.operations, plan.ops, strict=True)
    still = {operation for operation, one in pairs if isinstance(one, ConcatAlias | SliceView)}
    moved = planner.with_moves(plan)
    tasks, aliases = planner.planned(moved).tasks, planner.planned(moved).aliases
    apart: dict[int, tuple[int, TilePlan | None]] = {}
    for point, task in enumerate(tasks):
        if task.operation in still:
            apart[point] = (0, None)
        elif isinstance(task, TileTask):
            try:
                apart[point] = planner.streamed(task.operation, cycles)
            except LmemOverflow:
                continue
    outputs = {aliases.root(value) for value in (*planner.module.main.outputs, *planner.shared(moved))}
    budget = chip.lmem.lane_bytes * _BUDGET // 100
    finder = ApartFinder(tasks, outputs, CascadeCosts(cycles), aliases, budget, planner.cores)
    borders = _borders(planned, [task.operation for task in tasks], planner.costs.cycles)
    best, least = plan, timeline.cycles
    tried = [dict[Operation, TilePlan]()]
    for times, weight, constants in product(_times(timeline, operations), _WEIGHTS, _CONSTANTS):
        costs = Costs([times.get(task.operation, 0) for task in tasks], apart, borders)
        chosen = finder.choose(costs, weight, constants)
        if chosen in tried:
            continue
        tried.append(chosen)
        for found in planner.plans_around(plan, chosen):
            count = planner.cycles_of(found)
            if count is not None and count < least:
                best, least = replace(found, cycles=count), count
    return best


def _times(timeline: Timeline, operations: Mapping[int, Operation]) -> Iterator[Mapping[Operation, int]]:
    """Yield the cycles that a program takes for each operation: until its results are there, by which loads of later
    operations take the time of what is computed meanwhile; and by what is computed alone, which loads may wait for.
    """
    entries = [(entry, operations[id(entry.command.instruction)]) for entry in timeline.entries]
    computed = {operation for entry, operation in entries if entry.command.engine is Engine.COMPUTE}
    ways = (entries, [one for one in entries if one[0].command.engine is Engine.COMPUTE or one[1] not in computed])
    for chosen in ways:
        times: dict[Operation, int] = {}
        end = 0
        for entry, operation in sorted(chosen, key=lambda one: one[0].end):
            times[operation] = times.get(operation, 0) + max(entry.end - end, 0)
            end = max(end, entry.end)
        yield times


def _borders(planned: PlannedFunction, operations: Sequence[Operation], cycles: Cycles) -> Sequence[int]:
    """Return, for each operation, the cycles of storing and loading what is in local memory before it."""
    points = {operation: point for point, operation in enumerate(operations)}
    spans: dict[Value, list[int]] = {}
    sizes: dict[Value, int] = {}
    for task in planned.tasks:
        if not isinstance(task, TileTask):
            continue
        point = points[task.operation]
        for index in sorted(task.residency.resident_out):
            value, side = planned.aliases.root(task.operation.results[index]), task.results[index]
            spans[value] = [point, point]
            sizes[value] = cycles.store(side, side.shape) + cycles.load(side, side.shape)
        for index in task.residency.resident_in:
            for value in planned.aliases.writers(task.operation.operands[index]):
                if value in spans:
                    spans[value][1] = point
    changes = [0] * (len(operations) + 1)
    for value, (first, last) in spans.items():
        changes[first + 1] += sizes[value]
        changes[last + 1] -= sizes[value]
    return [*accumulate(changes[: len(operations)])]
