"""Plans all stretches of a module, with moves in DDR and with those in local memory that can stay there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import (
    Attribute,
    Chip,
    Constant,
    CpuRoutine,
    Module,
    MoveKernel,
    Node,
    Operation,
    PassContext,
    TileKernel,
    UnitAttr,
    Unsupported,
)

from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.grouping import StretchPlanner
from tpuc_passes.planning.kernels import LOCAL, find_kernel, runs_on_chip
from tpuc_passes.planning.places import ALIAS, INSIDE, MERGED, Sharing, is_free, merge_of, origin
from tpuc_passes.planning.profiles import least_loss, times_of, write_order
from tpuc_passes.planning.program import record_moves
from tpuc_passes.planning.residency import Residency
from tpuc_passes.planning.slice_cost import RunCosts
from tpuc_passes.planning.task import HostTask, MoveTask, Task, TileTask
from tpuc_passes.planning.tiling import make_task


class ModulePlanner:
    """Writes the plan of a module at an optimisation level as marks on its operations."""

    def __init__(self, module: Module, context: PassContext, chip: Chip, level: int) -> None:
        self.module = module
        self.operations = [o for o in module.main.operations if runs_on_chip(o)]
        self.chip = chip
        self.level = level
        self.kernels = {id(operation): find_kernel(context, operation) for operation in self.operations}
        self.context = context
        self.costs = RunCosts(Cycles(chip))
        self._tiled: dict[int, Sequence[Task]] = {}
        self._faster: dict[int, bool] = {}

    def run(self) -> None:
        """Write the fastest plan. Where there are several profiles, plans and orders that are best in one of them, or
        in all together, are tried, and what loses least in any of them is taken.
        """
        profiles = self.chip.profiles
        if len(profiles) < 2:
            self._write_fastest()
            return
        clocks = [Cycles(self.chip, chosen) for chosen in (*((name,) for name in profiles), profiles)]
        plans: list[list[dict[str, Attribute]]] = []
        for cycles in clocks:
            self.costs = RunCosts(cycles)
            self._faster.clear()
            self._write_fastest()
            if self._marks() not in plans:
                plans.append(self._marks())
        tried: list[tuple[list[dict[str, Attribute]], Cycles]] = []
        times: list[Sequence[int]] = []
        for plan in plans:
            self._restore(plan)
            for cycles in clocks:
                tried.append((plan, cycles))
                times.append(times_of(self.module, self.context, cycles))
        plan, order = tried[least_loss(times)]
        self._restore(plan)
        write_order(self.module, order)

    def _write_fastest(self) -> None:
        best = self._plan([])
        local = [operation for operation in self.operations if self._has_room(operation)]
        if not local:
            return
        kept = self._marks()
        cycles: int | None = None
        while local:
            cycles = self._plan(local)
            staying = [operation for operation in local if _stays(operation)]
            if len(staying) == len(local):
                break
            local = staying
        if not local or cycles is None or (best is not None and best <= cycles):
            self._restore(kept)

    def _has_room(self, operation: Operation) -> bool:
        """Is the operation a move that can happen in local memory?"""
        kernel, node = self.kernels[id(operation)], Node.of(operation)
        local = kernel.local(node) if isinstance(kernel, MoveKernel) else None
        if local is None:
            return False
        [task, *_] = self._tasks_of(operation, local)
        assert not isinstance(task, (MoveTask, HostTask))
        boxes = enumerate(task.boxes(task.tiles[0]))
        need = sum(task.operand_bytes(index, box) for index, box in boxes if box is not None)
        return need + task.result_bytes(0, task.result_box(task.tiles[0], 0)) <= self.chip.lmem.lane_bytes

    def _plan(self, local: Sequence[Operation]) -> int | None:
        """Plan everything, moves in `local` in local memory. Returns the cycles, None where buffers have no place."""
        function, sharing = self.module.main, Sharing(self.module.main.outputs)
        stretches: list[list[Sequence[Task]]] = [[]]
        for operation in self.operations:
            for name in (ALIAS, MERGED, INSIDE, LOCAL):
                operation.extra_attributes.pop(name, None)
        for operation in local:
            operation.extra_attributes[LOCAL] = UnitAttr()
        for operation in self.operations:
            choices = self._choices(operation, sharing)
            if choices and isinstance(choices[0], HostTask):
                stretches.append([])
            elif choices:
                stretches[-1].append(choices)
        merges = [merge_of(o) for o in function.operations if MERGED in o.extra_attributes]
        shared = [v for o in function.operations if is_free(o) and ALIAS not in o.extra_attributes for v in o.operands]
        hosts = [v for o in self.operations if isinstance(self.kernels[id(o)], CpuRoutine) for v in o.operands]
        total: int | None = 0
        for index, stretch in enumerate(stretches):
            later = [v for other in stretches[index + 1 :] for task, *_ in other for v in task.operation.operands]
            planner = StretchPlanner(self.costs, stretch, [*function.outputs, *later, *hosts], shared, merges)
            cycles = planner.run(self.level, function.operations)
            total = None if total is None or cycles is None else total + cycles
        return total

    def _choices(self, operation: Operation, sharing: Sharing) -> Sequence[Task]:
        """The task of an operation in each view; none where it only shares bytes, which is marked."""
        kernel, node = self.kernels[id(operation)], Node.of(operation)
        if isinstance(kernel, CpuRoutine):
            return (HostTask(operation, node, kernel),)
        if isinstance(kernel, MoveKernel):
            local = kernel.local(node) if LOCAL in operation.extra_attributes else None
            if local is not None:
                return self._tasks_of(operation, local)
            if kernel.is_alias(node):
                _refuse_constant(operation)
                operation.extra_attributes[ALIAS] = UnitAttr()
                return ()
            task = MoveTask(operation, node, kernel.moves(node))
            if sharing.mark(operation, task.moves):
                return ()
            local = kernel.local(node)
            if local is not None and self._is_faster_locally(task):
                operation.extra_attributes[LOCAL] = UnitAttr()
                return self._tasks_of(operation, local)
            return (task,)
        return self._tasks_of(operation, kernel)

    def _is_faster_locally(self, move: MoveTask) -> bool:
        """Does it take less time to load, move in local memory and store than to move in DDR?"""
        key = id(move.operation)
        if key not in self._faster:
            self._faster[key] = self._has_room(move.operation) and self._locally(move.operation) < self._in_ddr(move)
        return self._faster[key]

    def _locally(self, operation: Operation) -> int:
        """Cycles of loading, moving and storing, one after the other, in the view that suits best."""
        kernel = self.kernels[id(operation)]
        assert isinstance(kernel, MoveKernel)
        local = kernel.local(Node.of(operation))
        assert local is not None
        costs: list[int] = []
        for task in self._tasks_of(operation, local):
            assert isinstance(task, TileTask)
            tile = task.tiles[0]
            boxes = task.boxes(tile)
            loads = sum(self.costs.cycles.load(task, i, box) for i, box in enumerate(boxes) if box is not None)
            store = self.costs.cycles.store(task, 0, task.result_box(tile, 0))
            costs.append(loads + self.costs.cycles.compute(task, tile, task.phase(tile), boxes) + store)
        return min(costs)

    def _in_ddr(self, move: MoveTask) -> int:
        asm, base = self.chip.assembler(), self.chip.description.ddr_base
        record_moves(move, asm, lambda _: base)
        return self.costs.cycles.total(asm.instructions)

    def _tasks_of(self, operation: Operation, kernel: TileKernel[Any]) -> Sequence[Task]:
        key = id(operation)
        if key not in self._tiled:
            views = range(len(kernel.spaces(Node.of(operation))))
            self._tiled[key] = [make_task(operation, kernel, self.chip, view) for view in views]
        return self._tiled[key]

    def _marks(self) -> list[dict[str, Attribute]]:
        return [dict(operation.extra_attributes) for operation in self.operations]

    def _restore(self, marks: Sequence[dict[str, Attribute]]) -> None:
        for operation, known in zip(self.operations, marks, strict=True):
            operation.extra_attributes.clear()
            operation.extra_attributes.update(known)


def _refuse_constant(operation: Operation) -> None:
    """Constants lie among the coefficients, where the result of an operation has no place."""
    source = origin(operation.operands[0]).defining
    if source is not None and isinstance(source.op, Constant):
        raise Unsupported(
            f"node '{operation.name}': {operation.op.name} of the constant '{source.name}', whose bytes nobody copies; "
            "fold it into a constant of the new shape where the operation is made"
        )


def _stays(operation: Operation) -> bool:
    """Is all that the operation reads and writes in local memory?"""
    residency = Residency.of(operation)
    at_hand = residency.kept | residency.fetched
    return (0 in residency.held or 0 not in residency.stored) and at_hand == frozenset(range(len(operation.operands)))
