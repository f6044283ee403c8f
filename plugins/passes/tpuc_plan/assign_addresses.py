"""Assign a DDR address to every tensor."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tpuc.api import (
    CONSTANTS,
    MEMORY_PLAN,
    Chip,
    ConstantImage,
    IntegerAttr,
    MemoryPlan,
    Module,
    Pass,
    PassContext,
    PlannedBuffer,
    PlannedPool,
    PoolInfo,
    StringAttr,
    TensorType,
    Value,
)
from tpuc_lower.target.kernels import COEFFICIENTS, COEFFICIENTS_ADDRESS, chip_of

from tpuc_plan.ddr.inplace import boundary_alone, chains, expanded
from tpuc_plan.ddr.lifetimes import POOL, Lifetime, boundary_addresses, lifetimes, set_address
from tpuc_plan.ddr.states import place_kept, place_states, resets, visible_ends
from tpuc_plan.planners.alignment import align
from tpuc_plan.planners.arena import buffer_list, distinct, find_planner, make_plan
from tpuc_plan.regions.planned import PlannedFunction
from tpuc_plan.tasks.pack import digest_of

ADDRESS_MODE, IO_ADDRESS, IO_BYTES = "module.addr_mode", "module.io_addr", "module.io_size"
"""A module whose address mode is `io_alone` has inputs and outputs in one region that nothing else shares."""
WEIGHTS, ONCE = "weights", "constants lie in program order, equal ones once"


@dataclass(frozen=True)
class AssignAddresses(Pass):
    """Assign DDR addresses: packed constants in order from the chip's DDR base, activations by a planner after them or
    in a memory of their own, inputs and outputs among the activations or each in a memory that the chip has for it.

    Addresses are written into the types (`tensor<..., 4295618560 : i64>`), those of packed constants into
    `packed_addr`, the memory ranges into TPU-MLIR's module attributes, and the plan into the result `memory_plan`.
    `planner` is a name in `tpuc.planners`, or `name{option=value}`; empty means the session's planner, or `greedy`.
    `in_place`: results may overwrite an operand where no tile can observe it. `io_alone`: nothing else ever shares
    bytes with inputs and outputs. Constants already in the result `constants` keep their addresses.
    """

    name = "assign-addresses"
    planner: str = ""
    in_place: bool = True
    io_alone: bool = False

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        chip = chip_of(context, self.name)
        hook = context.registry.hooks.hook
        hook.assign_memory(chip=chip, module=module, proceed=lambda: self._assign(chip, module, context))
        return True

    def _assign(self, chip: Chip, module: Module, context: PassContext) -> None:
        description = chip.description
        function = module.main
        base = description.ddr_base
        before = context.find(CONSTANTS, ConstantImage())
        constants = _place_constants(module, base, description.ddr_alignment, before)
        ends = (one.offset + align(one.size_bytes, description.ddr_alignment) for one in constants)
        planned = PlannedFunction.of(context, module)
        aliases = planned.aliases
        states, weights_end = place_states(module, aliases, base + max([len(before.data), *ends]), description)
        weights_bytes = weights_end - base
        spans = lifetimes(function, planned.tasks, aliases)
        start = base + weights_bytes if description.activations_base is None else description.activations_base
        is_apart = resets(module, description) or module.attributes.get(ADDRESS_MODE) == StringAttr("io_alone")
        apart = start if is_apart else None
        boundary = boundary_addresses(itertools.chain(*visible_ends(module)), aliases, description, apart)
        if apart is not None:
            ends = (boundary[one] + align(one.tensor.size_bytes, description.ddr_alignment) for one in boundary)
            start = place_kept(module, max(ends, default=start), description)
            module.attributes |= {IO_ADDRESS: IntegerAttr(apart), IO_BYTES: IntegerAttr(start - apart)}
        boundary |= states
        inner = [span for span in spans if span.value not in boundary]
        if self.io_alone:
            inner = boundary_alone(inner, function, aliases)
        text = self.planner or context.options.get("planner") or "greedy"
        planner = find_planner(lambda name: context.registry.get("tpuc.planners", name), text)
        points = {operation: point for point, operation in enumerate(function.operations)}
        parts = chains(inner, planned.tasks if self.in_place else (), aliases, points)
        lived = distinct([chain.lived(POOL) for chain in parts])
        buffers = buffer_list(lived, description.ddr_alignment)
        plan = make_plan(planner, buffers, [PoolInfo(POOL, None, description.ddr_alignment, start)], lived)
        addresses = dict(boundary)
        for chain, buffer in zip(parts, plan.buffers, strict=True):
            addresses |= {span.value: start + buffer.offset for span in chain.spans}
        for operation in function.operations:
            for result in operation.results:
                root, offset = aliases.place(result)
                if isinstance(result.type, TensorType) and root in addresses:
                    set_address(result, addresses[root] + offset)
        function.update_type()
        module.attributes |= {
            "module.coeff_addr": IntegerAttr(base),
            "module.coeff_size": IntegerAttr(weights_bytes),
            "module.neuron_addr": IntegerAttr(start),
            "module.neuron_size": IntegerAttr(plan.peak_bytes),
            "module.state": StringAttr("TPU_ADDRESSED"),
        }
        pool = PlannedPool(WEIGHTS, base, None, weights_bytes, weights_bytes)
        context.leave(MEMORY_PLAN, _whole_plan(expanded(plan, parts), constants, pool, spans, boundary))


def _place_constants(module: Module, base: int, alignment: int, before: ConstantImage) -> list[PlannedBuffer]:
    """Place packed constants one after the other in program order; operations may share one. Those in `before` stay."""
    at = align(len(before.data), alignment)
    placed: list[PlannedBuffer] = []
    known: dict[str, IntegerAttr] = {}
    for point, operation in enumerate(module.main.operations):
        packed = operation.extra_attributes.get(COEFFICIENTS)
        if isinstance(packed, StringAttr):
            if packed.value not in known:
                array = module.weights[packed.value]
                place = before.places.get(digest_of(array), at)
                known[packed.value] = IntegerAttr(base + place)
                placed.append(PlannedBuffer(packed.value, array.size, WEIGHTS, place, -1, point, ONCE))
                at = max(at, align(place + array.size, alignment))
            operation.extra_attributes[COEFFICIENTS_ADDRESS] = known[packed.value]
    return placed


def _whole_plan(
    plan: MemoryPlan,
    constants: Sequence[PlannedBuffer],
    weights: PlannedPool,
    spans: Sequence[Lifetime],
    boundary: Mapping[Value, int],
) -> MemoryPlan:
    """Add constants, and inputs and outputs with a memory of their own, to the plan of the activations."""
    pools, buffers = [*plan.pools, weights], [*plan.buffers, *constants]
    for span in spans:
        if span.value in boundary:
            pool, size = f"io {span.value.name}", span.size_bytes
            pools.append(PlannedPool(pool, boundary[span.value], None, size, size))
            reason = "this chip has a memory for each input and output"
            buffers.append(PlannedBuffer(span.value.name, size, pool, 0, span.first, span.last, reason))
    return MemoryPlan(plan.planner, tuple(pools), tuple(buffers))
