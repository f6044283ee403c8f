"""Plan all regions of a module, including moves in DDR and in local memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from tpuc.api import (
    Chip,
    Constant,
    CpuRoutine,
    Module,
    MoveKernel,
    Node,
    Operation,
    PassContext,
    TileKernel,
    Timeline,
    Unsupported,
    UsageError,
    Value,
)
from tpuc_lower.target.kernels import find_kernel, runs_on_chip

from tpuc_plan.profiles import least_loss, timelines_of, times_of
from tpuc_plan.regions.cascade_cost import CascadeCosts
from tpuc_plan.regions.planned import PlannedFunction
from tpuc_plan.regions.region import record_moves
from tpuc_plan.regions.region_planner import FIRST_FIT, RegionPlan, RegionPlanner
from tpuc_plan.tasks.aliases import AliasFinder, AliasSets
from tpuc_plan.tasks.buffers import fitting_buffers
from tpuc_plan.tasks.cost import Cycles, streamed_cycles
from tpuc_plan.tasks.plan import Alias, ConcatAlias, OpPlan, Plan, SliceView, TilePlan
from tpuc_plan.tasks.task import HostTask, MoveTask, Task, TileTask
from tpuc_plan.tasks.tiling import choose_tiling, make_task, rounded_size

_READERS = 8
"""Maximum number of consecutive moves that are evaluated together."""


class ModulePlanner:
    """Plans a module at an optimization level."""

    def __init__(self, module: Module, context: PassContext, chip: Chip, level: int) -> None:
        self.module = module
        self.operations = [o for o in module.main.operations if runs_on_chip(o)]
        self.chip = chip
        self.level = level
        self.cores = int(context.options.get("cores") or 1)
        """How many cores may share the work."""
        self.kernels = {operation: find_kernel(context, operation) for operation in self.operations}
        self.costs = CascadeCosts(Cycles(chip))
        self._tiled: dict[Operation, Sequence[TileTask]] = {}
        self._faster: dict[Operation, bool] = {}
        self._spreads = False
        """Regions may take views that occupy more lanes."""
        self._is_spread = False
        """A region took them since this was reset."""

    def run(self) -> Plan:
        """Return the fastest plan. With several profiles, try plans and program orders that are best in one profile or
        in all together, and return the one that loses least in any profile.
        """
        if self.level == FIRST_FIT:
            return self._plan([])
        profiles = self.chip.planned_profiles
        if len(profiles) < 2:
            return self._really_fastest(self._candidates())
        clocks = [self.costs.cycles.by(chosen) for chosen in (*((name,) for name in profiles), profiles)]
        plans: dict[tuple[OpPlan, ...], Plan] = {}
        for cycles in clocks:
            self.costs = CascadeCosts(cycles)
            self._faster.clear()
            for plan in self._candidates():
                plans.setdefault(plan.ops, plan)
        tried: list[Plan] = []
        times: list[Sequence[int]] = []
        for plan in plans.values():
            planned = self.planned(plan)
            for cycles in clocks:
                order = () if cycles.profiles == profiles[:1] else cycles.profiles
                tried.append(replace(plan, order_profiles=order))
                times.append(times_of(planned, cycles))
        return tried[least_loss(times)]

    def with_tilings(self, tilings: Mapping[str, Mapping[str, int]]) -> Plan:
        """Return the plan of this level, with the given tile sizes for the operations named in `tilings`, rounded up to
        what their kernels take; raises UsageError for an axis that an operation does not have.
        """
        plan = self._plan([])
        ops: list[OpPlan] = []
        for operation, op_plan in zip(self.module.main.operations, plan.ops, strict=True):
            if isinstance(op_plan, TilePlan) and operation.name in tilings:
                chosen, forced = dict(op_plan.tiling), tilings[operation.name]
                if unknown := sorted(forced.keys() - chosen):
                    known = ", ".join(chosen)
                    raise UsageError(f"node '{operation.name}' has no axis '{unknown[0]}' to cut; it has {known}.")
                axes = {axis.name: axis for axis in self._tiles(operation)[op_plan.view].space.axes}
                sizes = {name: rounded_size(axes[name], size) for name, size in forced.items()}
                op_plan = replace(op_plan, tiling=tuple((chosen | sizes).items()))
            ops.append(op_plan)
        return Plan(tuple(ops))

    def planned(self, plan: Plan) -> PlannedFunction:
        """Return the tasks of a plan."""
        tasks: list[Task] = []
        for operation, op_plan in zip(self.module.main.operations, plan.ops, strict=True):
            kernel = self.kernels.get(operation)
            if isinstance(op_plan, TilePlan):
                tasks.append(self._tiles(operation)[op_plan.view].planned(op_plan))
            elif isinstance(kernel, MoveKernel) and op_plan is None:
                tasks.append(MoveTask(operation, Node.of(operation), kernel.moves(Node.of(operation))))
            elif isinstance(kernel, CpuRoutine):
                tasks.append(HostTask(operation, Node.of(operation), kernel))
        return PlannedFunction(self.chip, tasks, AliasSets.of(self.module.main, plan))

    def with_moves(self, plan: Plan) -> Plan:
        """Return a plan without cascades, in which operations move data in local memory wherever that is possible."""
        ops: list[OpPlan] = []
        for operation, op_plan in zip(self.module.main.operations, plan.ops, strict=True):
            kernel = self.kernels.get(operation)
            if isinstance(op_plan, TilePlan):
                op_plan = replace(op_plan, stripes=None)
            elif isinstance(kernel, MoveKernel) and not isinstance(op_plan, Alias):
                local = self._tiles(operation)[0] if kernel.local(Node.of(operation)) is not None else None
                op_plan = op_plan if local is None else local.plan(local.residency)
            ops.append(op_plan)
        return replace(plan, ops=tuple(ops))

    def cycles_of(self, plan: Plan) -> int | None:
        """Return the cycles of the real instructions of a plan; None if its buffers cannot be placed."""
        times = times_of(self.planned(plan), self.costs.cycles)
        return times[0] if times else None

    def _candidates(self) -> Sequence[Plan]:
        """Return the fastest plan by estimates; if it has views that occupy more lanes, also the one without them,
        since estimates of two programs can be wrong by more than their difference.
        """
        self._spreads, self._is_spread = True, False
        plan = self._fastest()
        self._spreads = False
        return [self._fastest(), plan] if self._is_spread else [plan]

    def _really_fastest(self, plans: Sequence[Plan]) -> Plan:
        """Return the plan whose real instructions take least time; the first one if they take the same."""
        if len(plans) == 1:
            return plans[0]
        return min(plans, key=lambda plan: math.inf if (cycles := self.cycles_of(plan)) is None else cycles)

    def _fastest(self) -> Plan:
        best = self._plan([])
        local = [operation for operation in self.operations if self._fits_lmem(operation)]
        while local:
            trial = self._plan(local)
            if trial.cycles is not None and (best.cycles is None or trial.cycles < best.cycles):
                best = trial
            ops = dict(zip(self.module.main.operations, trial.ops, strict=True))
            resident = [operation for operation in local if _is_resident(operation, ops[operation])]
            if len(resident) == len(local):
                break
            local = resident
        return best

    def _fits_lmem(self, operation: Operation) -> bool:
        """True if the operation is a move that can happen in local memory."""
        if self._local_kernel(operation) is None:
            return False
        task = self._tiles(operation)[0]
        tile = task.tiles[0]
        return task.tile_bytes(tile) - task.work_bytes(tile) <= self.chip.lmem.lane_bytes

    def _local_kernel(self, operation: Operation) -> TileKernel[Any, Any] | None:
        """Return the kernel that performs a move in local memory; None if there is none, or if nothing need move: a
        concatenation whose operands can lie one after the other.
        """
        kernel = self.kernels[operation]
        found = kernel.local(Node.of(operation)) if isinstance(kernel, MoveKernel) else None
        return None if found is None or self._is_joined(operation) else found

    def _is_joined(self, operation: Operation) -> bool:
        """True if each of several operands has whole lanes of the result."""
        task, begin = self._tiles(operation)[-1], 0
        _, c, *plane = task.results[0].shape
        for index in range(len(operation.operands)):
            batches, channels, *own = task.operand(index).shape
            if batches > 1 or own != plane or begin % self.chip.lmem.lanes:
                return False
            begin += channels
        return begin == c and len(operation.operands) > 1

    def plans_around(self, plan: Plan, given: Mapping[Operation, TilePlan]) -> Sequence[Plan]:
        """Return plans with the `given` plans of single operations: with the moves in local memory that `plan` has
        there, and with those that are faster there by themselves, as what they move may now be in DDR.
        """
        pairs = zip(self.module.main.operations, plan.ops, strict=True)
        local = [operation for operation, one in pairs if isinstance(one, TilePlan)]
        return [*dict.fromkeys((self._plan(local, given), self._plan([], given)))]

    def streamed(self, operation: Operation, cycles: Cycles) -> tuple[int, TilePlan]:
        """Return the fastest way to stream an operation whose tiles the cores compute apart, with its cycles."""
        found: list[tuple[int, TilePlan]] = []
        for task in self._tiles(operation):
            tiled = choose_tiling(replace(task, cores=self.cores, share=0), cycles)
            buffers = fitting_buffers(tiled)
            if buffers is not None:
                found.append((streamed_cycles(tiled, buffers, cycles), tiled.plan(tiled.residency)))
        return min(found, key=itemgetter(0))

    def shared(self, plan: Plan) -> Sequence[Value]:
        """Return the operands of the operations that only share bytes."""
        pairs = zip(self.module.main.operations, plan.ops, strict=True)
        return [value for one, plan in pairs if isinstance(plan, (ConcatAlias, SliceView)) for value in one.operands]

    def timelines_of(self, plan: Plan) -> Sequence[tuple[Timeline, Mapping[int, Operation]]]:
        """Return the timelines of the real instructions of a plan."""
        return timelines_of(self.planned(plan), self.costs.cycles)

    def _plan(self, local: Collection[Operation], given: Mapping[Operation, TilePlan] = MappingProxyType({})) -> Plan:
        """Plan the whole module, with the moves in `local` in local memory, around operations whose plan is `given`."""
        aliases = AliasSets()
        finder = AliasFinder(aliases, set(self.module.main.outputs))
        regions: list[dict[Operation, Sequence[Task]]] = [{}]
        hosts: list[Operation] = []
        ops: dict[Operation, OpPlan] = {}
        for operation in self.operations:
            if isinstance(self.kernels[operation], CpuRoutine):
                regions.append({})
                hosts.append(operation)
                continue
            if operation in given:
                regions.append({})
                hosts.append(operation)
                ops[operation] = given[operation]
                continue
            found = self._choices(operation, operation in local, aliases, finder)
            if isinstance(found, (Alias, ConcatAlias, SliceView)):
                aliases.add(operation, found)
                ops[operation] = found
            else:
                regions[-1][operation] = found
        return self._plan_regions(regions, hosts, aliases, ops)

    def _plan_regions(
        self,
        regions: Sequence[Mapping[Operation, Sequence[Task]]],
        hosts: Sequence[Operation],
        aliases: AliasSets,
        ops: dict[Operation, OpPlan],
    ) -> Plan:
        """Plan one region after the other. `ops` holds the operations that only share bytes; the plans of all others
        are added to it.
        """
        shared = [value for one, plan in ops.items() if not isinstance(plan, Alias) for value in one.operands]
        total: int | None = 0
        for index, region in enumerate(regions):
            if not region:
                continue
            readers = [*hosts, *(operation for other in regions[index + 1 :] for operation in other)]
            read = [*self.module.main.outputs, *(value for operation in readers for value in operation.operands)]
            live_out = {aliases.root(value) for value in read}
            plan = self._plan_region([*region.values()], live_out, shared, aliases)
            ops.update(zip(region, plan.tasks, strict=True))
            for operation, op_plan in ops.items():
                if isinstance(op_plan, ConcatAlias) and operation.result in plan.lmem_concats:
                    ops[operation] = replace(op_plan, in_lmem=True)
            total = None if total is None or plan.cycles is None else total + plan.cycles
        return Plan(tuple(ops.get(operation) for operation in self.module.main.operations), total)

    def _plan_region(
        self,
        choices: Sequence[Sequence[Task]],
        live_out: Collection[Value],
        shared: Sequence[Value],
        aliases: AliasSets,
    ) -> RegionPlan:
        """Plan a region with the views that save transfers, and, if others occupy more lanes, with those."""
        planner = RegionPlanner(self.costs, choices, live_out, shared, aliases)
        best = planner.run(self.level)
        if self._spreads:
            other = RegionPlanner(self.costs, choices, live_out, shared, aliases, by_lanes=True)
            plan = other.run(self.level) if other.tasks != planner.tasks else best
            if plan.cycles is not None and (best.cycles is None or plan.cycles < best.cycles):
                self._is_spread = True
                return plan
        return best

    def _choices(
        self, operation: Operation, local: bool, aliases: AliasSets, finder: AliasFinder
    ) -> Sequence[Task] | Alias | ConcatAlias | SliceView:
        """Return the tasks of an operation, one per view, or how its result shares bytes with its operands. `local`:
        perform a move in local memory.
        """
        kernel, node = self.kernels[operation], Node.of(operation)
        if not isinstance(kernel, MoveKernel) or (local and self._local_kernel(operation) is not None):
            return self._tiles(operation)
        if kernel.is_alias(node):
            _refuse_constant(operation, aliases)
            return Alias()
        task = MoveTask(operation, node, kernel.moves(node))
        shared = finder.plan(operation, task.moves)
        if shared is not None:
            return shared
        return self._tiles(operation) if self._is_faster_locally(operation) else (task,)

    def _is_faster_locally(self, operation: Operation, readers: int = _READERS) -> bool:
        """True if loading, moving in local memory, and storing takes less time than moving in DDR. Readers that also
        move the result in local memory, up to `readers` moves ahead, count too: they need not load it.
        """
        if operation not in self._faster:
            self._faster[operation] = self._fits_lmem(operation) and self._saves_locally(operation, readers)
        return self._faster[operation]

    def _saves_locally(self, operation: Operation, readers: int) -> bool:
        ddr, local, stores = self._in_ddr(operation), *self._locally(operation)
        if local + stores < ddr:
            return True
        uses = operation.result.uses
        if local >= ddr + stores or not readers or not uses or operation.result in self.module.main.outputs:
            return False
        if any(not self._moves_locally(user, readers - 1) for user, _ in uses):
            return False
        return local < ddr + sum(self._load(self._tiles(user)[0], index) for user, index in uses)

    def _moves_locally(self, user: Operation, readers: int) -> bool:
        kernel = self.kernels.get(user)
        return isinstance(kernel, MoveKernel) and self._is_faster_locally(user, readers)

    def _locally(self, operation: Operation) -> tuple[int, int]:
        """Return the cycles of loading and moving, and those of storing, without overlap, in the cheapest view."""
        costs: list[tuple[int, int]] = []
        for task in self._tiles(operation):
            tile = task.tiles[0]
            boxes = task.boxes(tile)
            cycles = self.costs.cycles
            firsts = {value: index for index, value in reversed([*enumerate(operation.operands)])}  # loaded once
            loads = sum(self._load(task, index) for index in firsts.values())
            store = cycles.store(task.results[0], task.result_box(tile, 0).shape)
            costs.append((loads + cycles.compute(task, tile, task.phase(tile), boxes), store))
        return min(costs, key=sum)

    def _load(self, task: TileTask, index: int) -> int:
        box = task.boxes(task.tiles[0])[index]
        return 0 if box is None else self.costs.cycles.load(task.operand(index), box.shape)

    def _in_ddr(self, operation: Operation) -> int:
        kernel, node = self.kernels[operation], Node.of(operation)
        assert isinstance(kernel, MoveKernel)
        asm, base = self.chip.assembler(), self.chip.description.ddr_base
        record_moves(MoveTask(operation, node, kernel.moves(node)), asm, lambda _: base)
        return self.costs.cycles.total(asm.instructions)

    def _tiles(self, operation: Operation) -> Sequence[TileTask]:
        """Return an operation as one tile, for each candidate kernel and view."""
        if operation not in self._tiled:
            kernel = self.kernels[operation]
            if isinstance(kernel, MoveKernel):
                kernel = kernel.local(Node.of(operation))
            assert isinstance(kernel, TileKernel)
            candidates = enumerate(kernel.kernels(Node.of(operation)))
            self._tiled[operation] = [make_task(operation, one, self.chip, view) for view, one in candidates]
        return self._tiled[operation]


def _refuse_constant(operation: Operation, aliases: AliasSets) -> None:
    """Raise Unsupported for an alias of a constant: constants lie among the coefficients, where no result can."""
    source = aliases.root(operation.operands[0]).defining
    if source is not None and isinstance(source.op, Constant):
        raise Unsupported(
            f"node '{operation.name}': {operation.op.name} of the constant '{source.name}', which is not copied; fold "
            "it into a constant of the new shape where the operation is created"
        )


def _is_resident(operation: Operation, plan: OpPlan) -> bool:
    """True if everything that the operation reads and writes is in local memory."""
    if not isinstance(plan, TilePlan):
        return False
    residency = plan.residency
    operands = residency.resident_in | residency.preloaded
    result = 0 in residency.resident_out or 0 not in residency.written_back
    return result and operands == frozenset(range(len(operation.operands)))
