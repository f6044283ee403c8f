"""Decides what stays in local memory between ops, and how each op is cut into tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tpuc.api import (
    Chip,
    CpuRoutine,
    Module,
    MoveKernel,
    Node,
    Operation,
    Pass,
    PassContext,
    TileKernel,
    UnitAttr,
)

from tpuc_passes.planning.grouping import StretchPlanner
from tpuc_passes.planning.kernels import chip_of, find_kernel, runs_on_chip
from tpuc_passes.planning.places import ALIAS, MERGED, Sharing, is_free, merge_of
from tpuc_passes.planning.task import HostTask, MoveTask, Task
from tpuc_passes.planning.tiling import make_task

USUAL_LEVEL = 2


@dataclass(frozen=True)
class GroupLayers(Pass):
    """Writes on every op with a tile kernel how it is cut (`tiling = {axis = size, ...}`) and which of its operands and
    results stay in local memory; `alias`, `merged` or `inside` on ops that share bytes.

    `opt` 1: values stay within runs of ops that are cut from the last one on; 2: the faster of that and of values that
    stay wherever there is room; 3: the fastest of many plans. 0: what the session says, else 2.
    """

    name = "group-layers"
    opt: int = 0

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises Unsupported where the chip has no kernel, LmemOverflow where no tile fits."""
        chip = chip_of(context, self.name)
        outputs = module.main.outputs
        sharing = Sharing(outputs)
        stretches: list[list[Sequence[Task]]] = [[]]
        for operation in module.main.operations:
            if not runs_on_chip(operation):
                continue
            choices = _tasks(operation, find_kernel(context, operation), chip, sharing)
            if choices and isinstance(choices[0], HostTask):
                stretches.append([])
            elif choices:
                stretches[-1].append(choices)
        merges = [merge_of(o) for o in module.main.operations if MERGED in o.extra_attributes]
        shared = [
            v for o in module.main.operations if is_free(o) and ALIAS not in o.extra_attributes for v in o.operands
        ]
        for index, stretch in enumerate(stretches):
            later = [v for other in stretches[index + 1 :] for task, *_ in other for v in task.operation.operands]
            hosts = _host_operands(module, context) if len(stretches) > 1 else []
            planner = StretchPlanner(chip, stretch, [*outputs, *later, *hosts], shared, merges)
            planner.run(self.opt or int(context.options.get("opt") or USUAL_LEVEL), module.main.operations)
        return True


def _host_operands(module: Module, context: PassContext) -> list[Any]:
    return [
        operand
        for operation in module.main.operations
        if runs_on_chip(operation) and isinstance(find_kernel(context, operation), CpuRoutine)
        for operand in operation.operands
    ]


def _tasks(
    operation: Operation, kernel: TileKernel[Any] | MoveKernel[Any] | CpuRoutine[Any], chip: Chip, sharing: Sharing
) -> Sequence[Task]:
    """The task of an operation in each view of its kernel; none where it only shares bytes, which is marked."""
    node = Node.of(operation)
    if isinstance(kernel, MoveKernel):
        if kernel.is_alias(node):
            operation.extra_attributes[ALIAS] = UnitAttr()
            return ()
        moves = kernel.moves(node)
        return () if sharing.mark(operation, moves) else (MoveTask(operation, node, moves),)
    if isinstance(kernel, CpuRoutine):
        return (HostTask(operation, node, kernel),)
    return [make_task(operation, kernel, chip, view) for view in range(len(kernel.spaces(node)))]
