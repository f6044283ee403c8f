"""Choose the values that stay in local memory, and the tiling of each op."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Module, Pass, PassContext
from tpuc_driver.api.planning import PLANS
from tpuc_lower.target.kernels import chip_of

from tpuc_plan.apart import plan_apart
from tpuc_plan.images import adopt, plan_by_images
from tpuc_plan.module_planner import ModulePlanner
from tpuc_plan.regions.region_planner import FIRST_FIT, STREAMED
from tpuc_plan.structure import structure_of
from tpuc_plan.tasks.plan import Plan

USUAL_LEVEL = 2
"""Value of `opt` if neither the pass nor the session sets one."""


@dataclass(frozen=True)
class GroupLayers(Pass):
    """Write tiling and residency on every op with a tile kernel.

    `tiling = {axis = size, ...}` states how the op is cut; further attributes name the operands and results that are
    resident in local memory. Ops that share bytes get `alias`, `concat_alias`, or `slice_view`. An op that only moves
    data has a tiling if it moves them in local memory: everything it reads and writes is resident, and the program is
    faster this way.

    For a chip with several timing profiles, plans are made for each profile and for all of them together. The plan with
    the smallest worst-case ratio to the best plan of a profile wins. `module.order_profiles` names the profiles that
    order its program, if they are not just the first one.

    The images of a batch are computed one after the other, each by the plan for one image, or parts of the batch on
    each of the session's `cores`, if that is faster: their operations then appear once per part, up to those that read
    several, with the attribute `core`.

    `opt` 1: values are resident within groups of ops, cut from the last op on. 2: the fastest of that, of values
    resident wherever they fit, and of plans with cascades, in which stripes of rows pass through several ops
    (`stripes`). 3: the fastest of many plans. 0: the session's level, 2 if it has none; if the session's level is 0,
    nothing is resident, so planning takes little time and shows whether every op can be compiled.

    Networks of equal structure in one session, such as the blocks of a language model, are planned once.

    Tests of kernels set `tilings` in the context, tile sizes by op name and axis; nothing is resident then.
    """

    name = "group-layers"
    opt: int = 0

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises Unsupported if the chip has no kernel for an op, LmemOverflow if no tile fits."""
        chip = chip_of(context, self.name)
        stated = context.options.get("opt")
        level = self.opt or (USUAL_LEVEL if stated is None else int(stated))
        tilings = context.options.get("tilings")
        if tilings:
            plan = ModulePlanner(module, context, chip, STREAMED).with_tilings(tilings)
        else:
            plan = _planned(module, context, ModulePlanner(module, context, chip, level))
        plan.write(module)
        return True


def _planned(module: Module, context: PassContext, planner: ModulePlanner) -> Plan:
    """Return the fastest plan, and give the module the form that it is for."""
    known = context.find(PLANS)
    structure = None if known is None else structure_of(module)
    if known is not None and structure is not None and (planner.level, structure) in known:
        return known[planner.level, structure]
    plan = planner.run()
    if planner.cores > 1 and planner.level > FIRST_FIT:
        plan = plan_apart(planner, plan)
    found = plan_by_images(planner, plan, context) if planner.level > FIRST_FIT else None
    if found is not None:
        adopt(module, found[0])
        return found[1]
    if known is not None and structure is not None:
        known[planner.level, structure] = plan
    return plan
