"""Plan the memory of a chip of functions: values, constants, and the buffers inside operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from tpuc.api import MEMORY_PLAN, FunctionChip, MemoryPlan, Module, Pass, PassContext, StringAttr, UsageError
from tpuc_lower.target.kernels import chip_of
from tpuc_lower.target.results import FUNCTION_PROGRAM

from tpuc_plan.planners.arena import find_planner
from tpuc_plan.usmp.planner import plan_program
from tpuc_plan.usmp.pools import read_pools
from tpuc_plan.usmp.programs import ProgramWriter, function_program


@dataclass(frozen=True)
class PlanFunctions(Pass):
    """Build the program of a module for a chip whose kernels are functions, and place every buffer in a pool.

    Pools and targets come from the session (`pools`, `target`), spelled as in TVM's unified static memory planning.
    `planner` is as in `assign-addresses`. Leaves the program in the result `function_program` and the plan in
    `memory_plan`.
    """

    name = "plan-functions"
    planner: str = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises UsageError for other chips, Unsupported if the chip has no function for an op."""
        chip = chip_of(context, self.name)
        if not isinstance(chip, FunctionChip):
            raise UsageError(
                f"pass '{self.name}' is for chips of functions only, and '{chip.description.name}' is not one"
            )
        own = chip.description.name
        targets = tuple(cast("tuple[str, ...]", context.options.get("target") or (own,)))
        pools = read_pools(cast("Mapping[str, str]", context.options.get("pools") or {}), targets)
        text = self.planner or context.options.get("planner") or "greedy"
        planner = find_planner(lambda name: context.registry.get("tpuc.planners", name), text)
        writer = ProgramWriter(module, context, chip, own)
        placed = plan_program(writer.run(), pools, planner)
        context.leave(FUNCTION_PROGRAM, function_program(module, placed, writer.written, chip))
        both = (placed.workspace, placed.parameter)
        plan = MemoryPlan(
            placed.workspace.planner,
            tuple(pool for one in both for pool in one.pools),
            tuple(buffer for one in both for buffer in one.buffers),
        )
        context.leave(MEMORY_PLAN, plan)
        module.attributes["module.state"] = StringAttr("TPU_ADDRESSED")
        return True
