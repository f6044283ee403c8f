"""Packs filters, biases and tables into the bytes that the tiles of each op load."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from tpuc.api import Module, Pass, PassContext, StringAttr

from tpuc_passes.planning.kernels import COEFFICIENTS
from tpuc_passes.planning.pack import pack_moves, pack_task
from tpuc_passes.planning.planned import PlannedFunction
from tpuc_passes.planning.task import HostTask, TileTask


@dataclass(frozen=True)
class PackWeights(Pass):
    """Adds packed arrays to the module's weights, and to each op the name of its own; ops with equal ones share it.

    The ops keep their plain weight operands, so the module still evaluates as before.
    """

    name = "pack-weights"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        changed = False
        known: dict[bytes, str] = {}
        for task in PlannedFunction.of(context, module).tasks:
            if isinstance(task, HostTask):
                continue
            arrays = [module.constant(operand) for operand in task.operation.operands]
            packed = pack_task(task, arrays) if isinstance(task, TileTask) else pack_moves(task, arrays)
            if packed.size:
                digest = hashlib.blake2b(np.ascontiguousarray(packed).data, digest_size=16).digest()
                name = known.setdefault(digest, f"{task.operation.name}_packed")
                module.weights[name] = packed
                task.operation.extra_attributes[COEFFICIENTS] = StringAttr(name)
                changed = True
        return changed
