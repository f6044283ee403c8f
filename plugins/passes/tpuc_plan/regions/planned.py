"""A planned function as a list of tasks, the input of the passes after `group-layers`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tpuc.api import Chip, CpuRoutine, Module, MoveKernel, Node, PassContext, UsageError
from tpuc_lower.target.kernels import chip_of, find_kernel, runs_on_chip

from tpuc_plan.regions.region import AddressOf, Region, build_region
from tpuc_plan.regions.schedule import Barrier
from tpuc_plan.tasks.aliases import AliasSets
from tpuc_plan.tasks.cost import Cycles
from tpuc_plan.tasks.plan import Plan, TilePlan
from tpuc_plan.tasks.task import HostTask, MoveTask, Task
from tpuc_plan.tasks.tiling import make_task


@dataclass(frozen=True)
class PlannedFunction:
    """The tasks of a function in program order, and its alias sets. Ops that only share bytes have no task."""

    chip: Chip
    tasks: Sequence[Task]
    aliases: AliasSets

    @staticmethod
    def of(context: PassContext, module: Module) -> PlannedFunction:
        """Build the tasks of a module with a plan; raises UsageError if an operation has no tiling."""
        chip, plan = chip_of(context, "generate-code"), Plan.of(module)
        aliases = AliasSets.of(module.main, plan)
        tasks: list[Task] = []
        for operation, op_plan in zip(module.main.operations, plan.ops, strict=True):
            if not runs_on_chip(operation) or not (op_plan is None or isinstance(op_plan, TilePlan)):
                continue
            node, kernel = Node.of(operation), find_kernel(context, operation, in_tiles=op_plan is not None)
            if isinstance(kernel, CpuRoutine):
                tasks.append(HostTask(operation, node, kernel))
            elif isinstance(kernel, MoveKernel):
                tasks.append(MoveTask(operation, node, kernel.moves(node)))
            elif op_plan is None:
                raise UsageError(f"node '{operation.name}' has no tiling: run the pass group-layers before this one")
            else:
                candidate = kernel.kernels(node)[op_plan.view]
                tasks.append(make_task(operation, candidate, chip, op_plan.view).planned(op_plan))
        return PlannedFunction(chip, tasks, aliases)

    def regions(self) -> Iterator[tuple[Sequence[Task], HostTask | None]]:
        """Yield runs of tasks without a host function, each with the host function after it (None at the end)."""
        region: list[Task] = []
        for task in self.tasks:
            if isinstance(task, HostTask):
                yield region, task
                region = []
            else:
                region.append(task)
        yield region, None

    def region(self, tasks: Sequence[Task | Barrier], cycles: Cycles, address_of: AddressOf) -> Region:
        """Build the steps and moves of one run of tasks."""
        return build_region(tasks, cycles, self.aliases, self.aliases.lmem_concats, address_of)
