"""Which core computes what: whole operations, or the tiles and stripes of one operation or cascade apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from tpuc.api import IntegerAttr, Operation

from tpuc_plan.tasks.task import Task, TileTask

CORE = "core"
"""Attribute of operations that run beside others: the core that computes them."""


def core_of(operation: Operation) -> int | None:
    """Return the core of an operation that runs beside others; None if nothing does."""
    core = operation.extra_attributes.get(CORE)
    return core.value if isinstance(core, IntegerAttr) else None


def runs_of(tasks: Sequence[Task]) -> Iterator[tuple[int, Sequence[Task]]]:
    """Yield what each core computes, in program order: a run of core 0 follows a barrier, those of others run beside
    the run before.
    """
    for (core, cores, _), group in groupby(tasks, _place_of):
        members = [*group]
        if cores == 1:
            yield core, members
            continue
        for share in range(cores):
            own = [task.shared(share) for task in members if isinstance(task, TileTask)]
            if own[0].stripes is not None or own[0].own_tiles:
                yield share, own


def _place_of(task: Task) -> tuple[int, int, object]:
    if isinstance(task, TileTask) and task.cores > 1:
        return 0, task.cores, task.operation if task.stripes is None else task.stripes.cascade
    return core_of(task.operation) or 0, 1, None


def stretches_of(operations: Iterable[Operation]) -> dict[Operation, tuple[int, int]]:
    """Map each operation that runs beside others to the first and last program point at which they do."""
    found: list[list[tuple[int, Operation]]] = []
    before = None
    for point, operation in enumerate(operations):
        core = core_of(operation)
        if core is None:
            continue
        if not found or (core == 0 and before != 0):
            found.append([])
        found[-1].append((point, operation))
        before = core
    return {one: (members[0][0], members[-1][0]) for members in found for _, one in members}
