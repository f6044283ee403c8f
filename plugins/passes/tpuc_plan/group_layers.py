"""Choose the values that stay in local memory, and the tiling of each op."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Module, Pass, PassContext
from tpuc_lower.target.kernels import chip_of

from tpuc_plan.module_planner import ModulePlanner
from tpuc_plan.regions.region_planner import STREAMED

USUAL_LEVEL = 2
"""The level of `opt` where neither the pass nor the session names one."""


@dataclass(frozen=True)
class GroupLayers(Pass):
    """Writes on every op with a tile kernel how it is cut (`tiling = {axis = size, ...}`) and which of its operands and
    results are resident in local memory; `alias`, `concat_alias` or `slice_view` on ops that share bytes. An op that
    only moves data has a tiling where it does so in local memory, because all that it reads and writes is resident and
    the program is faster so.

    On a chip with several timing profiles this is done by each of them and by all together, and of these plans the one
    is taken whose worst ratio to the fastest in a profile is the smallest. `module.order_profiles` then says by which
    profiles its program is ordered, where that is not the first one.

    `opt` 1: values are resident within groups of ops that are cut from the last one on; 2: the fastest of that, of
    values that are resident wherever they fit, and of rows that pass through cascades of ops in stripes (`stripes`)
    beside them; 3: the fastest of many plans. 0: what the session says, else 2. Where the session says 0, nothing is
    resident: that takes little time to plan, and shows whether kernels take all ops.

    Tests of kernels give tile sizes by name of the op and axis as `tilings` of the context: then nothing is resident.
    """

    name = "group-layers"
    opt: int = 0

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises Unsupported where the chip has no kernel, LmemOverflow where no tile fits."""
        chip = chip_of(context, self.name)
        stated = context.options.get("opt")
        level = self.opt or (USUAL_LEVEL if stated is None else int(stated))
        tilings = context.options.get("tilings")
        if tilings:
            plan = ModulePlanner(module, context, chip, STREAMED).with_tilings(tilings)
        else:
            plan = ModulePlanner(module, context, chip, level).run()
        plan.write(module)
        return True
