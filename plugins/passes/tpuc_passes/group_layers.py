"""Chooses how each op is cut into tiles of local memory; every op is a group of its own."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from tpuc.api import CpuRoutine, DictAttr, IntegerAttr, Module, MoveKernel, Node, Pass, PassContext, UnitAttr

from tpuc_passes.planning.kernels import ALIAS, TILING, chip_of, find_kernel, runs_on_chip
from tpuc_passes.planning.tiling import choose_tiling, make_task


@dataclass(frozen=True)
class GroupLayers(Pass):
    """Writes `tiling = {axis = size, ...}` on every op with a tile kernel and `alias` on ops that share bytes."""

    name = "group-layers"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises Unsupported where the chip has no kernel, LmemOverflow where no tile fits."""
        chip = chip_of(context, self.name)
        known: dict[Hashable, Mapping[str, int]] = {}
        for operation in module.main.operations:
            if not runs_on_chip(operation):
                continue
            kernel = find_kernel(context, operation)
            if isinstance(kernel, MoveKernel):
                if kernel.is_alias(Node.of(operation)):
                    operation.extra_attributes[ALIAS] = UnitAttr()
                continue
            if isinstance(kernel, CpuRoutine):
                continue
            node = Node.of(operation)
            shapes = tuple((t.shape, t.storage) for t in (*node.operand_types, *node.result_types))
            key = (operation.op.name, shapes, kernel.tiling_key(node))
            if key not in known:
                known[key] = choose_tiling(make_task(operation, kernel, chip)).sizes
            operation.extra_attributes[TILING] = DictAttr(
                tuple((name, IntegerAttr(size)) for name, size in sorted(known[key].items()))
            )
        return True
