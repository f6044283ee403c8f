"""Pack filters, biases, and tables into the bytes that tiles load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import Module, Pass, PassContext, StringAttr
from tpuc_lower.target.kernels import COEFFICIENTS

from tpuc_plan.regions.planned import PlannedFunction
from tpuc_plan.tasks.host import pack_host
from tpuc_plan.tasks.pack import digest_of, pack_moves, pack_task
from tpuc_plan.tasks.task import HostTask, Task, TileTask


@dataclass(frozen=True)
class PackWeights(Pass):
    """Add packed arrays to the module's weights and write each op's array name on it; ops with equal bytes share one.

    The ops keep their plain weight operands, so the module evaluates as before.
    """

    name = "pack-weights"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        changed = False
        known: dict[bytes, str] = {}
        for task in PlannedFunction.of(context, module).tasks:
            arrays = [module.constant(operand) for operand in task.operation.operands]
            packed = _packed(task, arrays)
            if packed.size:
                name = known.setdefault(digest_of(packed), f"{task.operation.name}_packed")
                module.weights[name] = packed
                task.operation.extra_attributes[COEFFICIENTS] = StringAttr(name)
                changed = True
        return changed


def _packed(task: Task, arrays: Sequence[NDArray[Any] | None]) -> NDArray[np.uint8]:
    """Return all packed constants of a task."""
    match task:
        case TileTask():
            return pack_task(task, arrays)
        case HostTask():
            return pack_host(task, arrays)
        case _:
            return pack_moves(task, arrays)
