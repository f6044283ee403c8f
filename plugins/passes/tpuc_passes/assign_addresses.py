"""Gives every DDR tensor its address."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Chip, IntegerAttr, Module, Pass, PassContext, Planner, StringAttr, TensorType

from tpuc_passes.planning.kernels import COEFFICIENTS, COEFFICIENTS_ADDRESS, chip_of, origin, runs_on_chip
from tpuc_passes.planning.memory import align, boundary_addresses, lifetimes, plan_activations, set_address


@dataclass(frozen=True)
class AssignAddresses(Pass):
    """Packed constants one after the other from the chip's DDR base; all activations by a planner, behind them or in
    a memory of their own; inputs and outputs among the activations, or each in a memory that the chip has for it.

    Addresses go into the types (`tensor<..., 4295618560 : i64>`), packed constants' into `coeff_addr`, the regions into
    the module attributes that TPU-MLIR uses. `planner` is a name in `tpuc.planners`.
    """

    name = "assign-addresses"
    planner: str = "greedy"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        chip = chip_of(context, self.name)
        hook = context.registry.hooks.hook
        hook.assign_memory(chip=chip, module=module, proceed=lambda: self._assign(chip, module, context))
        return True

    def _assign(self, chip: Chip, module: Module, context: PassContext) -> None:
        description = chip.description
        function = module.main
        at = base = description.ddr_base
        for operation in function.operations:
            packed = operation.extra_attributes.get(COEFFICIENTS)
            if isinstance(packed, StringAttr):
                operation.extra_attributes[COEFFICIENTS_ADDRESS] = IntegerAttr(at)
                at = align(at + module.weights[packed.value].size, description.ddr_alignment)
        planner: Planner = context.registry.get("tpuc.planners", self.planner)
        spans = lifetimes(function, origin, runs_on_chip)
        boundary = boundary_addresses(function, origin, description)
        inner = [span for span in spans if id(span.value) not in boundary]
        offsets, peak, bound = plan_activations(inner, description, planner)
        weights_bytes = at - base
        if description.activations_base is not None:
            at = description.activations_base
        addresses = boundary | {key: at + offset for key, offset in offsets.items()}
        for operation in function.operations:
            for result in operation.results:
                if isinstance(result.type, TensorType) and id(origin(result)) in addresses:
                    set_address(result, addresses[id(origin(result))])
        function.update_type()
        module.attributes |= {
            "module.coeff_addr": IntegerAttr(base),
            "module.coeff_size": IntegerAttr(weights_bytes),
            "module.neuron_addr": IntegerAttr(at),
            "module.neuron_size": IntegerAttr(peak),
            "module.state": StringAttr("TPU_ADDRESSED"),
        }
        context.results["memory_plan"] = {
            "weights_bytes": weights_bytes,
            "activations_bytes": peak,
            "activations_bound_bytes": bound,
        }
