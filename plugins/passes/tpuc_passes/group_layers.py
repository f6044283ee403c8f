"""Decides what stays in local memory between ops, and how each op is cut into tiles."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuc.api import (
    Chip,
    CpuRoutine,
    DictAttr,
    IntegerAttr,
    Module,
    MoveKernel,
    Node,
    Operation,
    Pass,
    PassContext,
    TileKernel,
    UnitAttr,
    Value,
)

from tpuc_passes.planning.keeping import Keeper
from tpuc_passes.planning.kernels import TILING, VIEW, chip_of, find_kernel, runs_on_chip
from tpuc_passes.planning.places import ALIAS, ASSEMBLED, MERGED, Merge, Sharing, is_free, merge_of, origin
from tpuc_passes.planning.residency import Residency
from tpuc_passes.planning.task import HostTask, MoveTask, Task, TileTask
from tpuc_passes.planning.tiling import choose_tiling, make_task
from tpuc_passes.planning.views import ViewChooser


@dataclass(frozen=True)
class GroupLayers(Pass):
    """Writes on every op with a tile kernel how it is cut (`tiling = {axis = size, ...}`) and which of its operands and
    results stay in local memory; `alias` on ops that share bytes. `opt` 1: nothing stays.
    """

    name = "group-layers"
    opt: int = 2

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
        known: dict[Hashable, Mapping[str, int]] = {}
        for index, stretch in enumerate(stretches):
            later = [v for other in stretches[index + 1 :] for task, *_ in other for v in task.operation.operands]
            hosts = _host_operands(module, context) if len(stretches) > 1 else []
            leaving = [*outputs, *later, *hosts]
            tasks = ViewChooser(stretch, [*leaving, *shared]).run()
            plans = self._keep(tasks, leaving, shared, merges)
            for task, plan in zip(tasks, plans, strict=True):
                if not isinstance(task, TileTask):
                    continue
                if plan is None:
                    _write_tiling(task.operation, _own_tiling(task, chip, known))
                    continue
                kept, residency = plan
                _write_tiling(task.operation, kept.sizes)
                if kept.facts.view:
                    task.operation.extra_attributes[VIEW] = IntegerAttr(kept.facts.view)
                residency.write(task.operation)
        return True

    def _keep(
        self, tasks: Sequence[Task], leaving: Sequence[Value], shared: Sequence[Value], merges: Sequence[Merge]
    ) -> Sequence[tuple[TileTask, Residency] | None]:
        """What stays. Parts of a value that is assembled in DDR leave local memory, others need not."""
        if self.opt < 2:
            return [None] * len(tasks)
        outer = {id(part) for merge in merges for part, _ in merge.parts}
        keeper = Keeper(tasks, leaving, [merge for merge in merges if _is_plain(merge, outer)])
        assembled: set[int] = set()
        while True:
            inside = {id(part) for merge in keeper.assembled.values() for part, _ in merge.parts}
            keeper = Keeper(
                tasks, [*leaving, *(v for v in shared if id(origin(v)) not in inside)], [*keeper.assembled.values()]
            )
            assembled = set(keeper.assembled)
            plans = keeper.run()
            if set(keeper.assembled) == assembled:
                break
        for merge in keeper.assembled.values():
            merge.operation.extra_attributes[ASSEMBLED] = UnitAttr()
        return plans


def _is_plain(merge: Merge, outer: set[int]) -> bool:
    """A whole that is no part, of parts that are no wholes."""
    wholes = [part.defining is not None and MERGED in part.defining.extra_attributes for part, _ in merge.parts]
    return id(merge.whole) not in outer and not any(wholes)


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
    """The task of an operation in each view that its kernel offers; none where it only shares bytes, which is marked."""
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


def _own_tiling(task: TileTask, chip: Chip, known: dict[Hashable, Mapping[str, int]]) -> Mapping[str, int]:
    """The best tiling of an op that works from DDR to DDR; ops of one kind are cut alike."""
    node = task.node
    shapes = tuple((t.shape, t.storage) for t in (*node.operand_types, *node.result_types))
    key = (task.operation.op.name, shapes, task.kernel.tiling_key(node))
    if key not in known:
        known[key] = choose_tiling(make_task(task.operation, task.kernel, chip)).sizes
    return known[key]


def _write_tiling(operation: Operation, sizes: Mapping[str, int]) -> None:
    operation.extra_attributes[TILING] = DictAttr(
        tuple((name, IntegerAttr(size)) for name, size in sorted(sizes.items()))
    )
