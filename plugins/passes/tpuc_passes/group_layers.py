"""Decides what stays in local memory between ops, and how each op is cut into tiles."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Module, Pass, PassContext

from tpuc_passes.planning.kernels import chip_of
from tpuc_passes.planning.module_planner import ModulePlanner

USUAL_LEVEL = 2
"""The level of `opt` where neither the pass nor the session names one."""


@dataclass(frozen=True)
class GroupLayers(Pass):
    """Writes on every op with a tile kernel how it is cut (`tiling = {axis = size, ...}`) and which of its operands and
    results stay in local memory; `alias`, `merged` or `inside` on ops that share bytes; `local` on ops that only move
    data and do so in local memory, because all that they read and write stays there and the program is faster so.

    On a chip with several timing profiles this is done by each of them and by all together, and of these plans the one
    is taken whose worst ratio to the fastest in a profile is the smallest. `module.order_profiles` then says by which
    profiles its program is ordered, where that is not the first one.

    `opt` 1: values stay within runs of ops that are cut from the last one on; 2: the fastest of that, of values that
    stay wherever there is room, and of rows that pass through runs of ops in slices (`sliced`) beside them; 3: the
    fastest of many plans. 0: what the session says, else 2.
    """

    name = "group-layers"
    opt: int = 0

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises Unsupported where the chip has no kernel, LmemOverflow where no tile fits."""
        chip = chip_of(context, self.name)
        level = self.opt or int(context.options.get("opt") or USUAL_LEVEL)
        ModulePlanner(module, context, chip, level).run()
        return True
