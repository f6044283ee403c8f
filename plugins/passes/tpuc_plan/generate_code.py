"""Generate the compiled file from a module with addresses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from tpuc.api import (
    ARTIFACT,
    CONSTANTS,
    MEMORY_PLAN,
    RECORDED,
    Chip,
    CompiledLayout,
    ConstantImage,
    FunctionChip,
    HostCall,
    IntegerAttr,
    Module,
    Operation,
    Pass,
    PassContext,
    RunsInPlace,
    StringAttr,
    TensorInfo,
    UsageError,
    Value,
)
from tpuc.api.boundary import rounds_evenly, states_of
from tpuc_lower.boundary.images import frame_of
from tpuc_lower.target.kernels import COEFFICIENTS, COEFFICIENTS_ADDRESS, chip_of
from tpuc_lower.target.results import FUNCTION_PROGRAM

from tpuc_plan.assign_addresses import IO_ADDRESS, IO_BYTES
from tpuc_plan.ddr.lifetimes import address_of
from tpuc_plan.ddr.states import record_first, record_states, reset_input, visible_ends, write_first_values
from tpuc_plan.regions.emit import Emitter
from tpuc_plan.regions.layers import layer_commands
from tpuc_plan.regions.planned import PlannedFunction
from tpuc_plan.regions.region_planner import FIRST_FIT
from tpuc_plan.tasks.cost import Cycles
from tpuc_plan.tasks.pack import digest_of
from tpuc_plan.tasks.plan import Plan


@dataclass(frozen=True)
class GenerateCode(Pass):
    """Emit the instructions of all tiles and write the container; leaves the bytes in the result `artifact`."""

    name = "generate-code"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; the module is unchanged. Raises UsageError if addresses are missing or the module has groups."""
        chip = chip_of(context, self.name)
        if isinstance(chip, FunctionChip):
            self._write_program(chip, module, context)
            return False
        if "module.neuron_addr" not in module.attributes:
            raise UsageError("the module has no addresses: run the pass assign-addresses before generate-code")
        if any(isinstance(operation.op, RunsInPlace) for operation in module.main.operations):
            raise UsageError("the module has groups: run generate-code on the module before outline-groups")
        proceed = partial(self._generate, chip, module, context)
        context.leave(ARTIFACT, context.registry.hooks.hook.generate_code(chip=chip, module=module, proceed=proceed))
        return False

    def _write_program(self, chip: FunctionChip, module: Module, context: PassContext) -> None:
        program = context.find(FUNCTION_PROGRAM)
        if program is None:
            raise UsageError("the module has no program: run the pass plan-functions before generate-code")
        proceed = partial(chip.write_program, program)
        context.leave(ARTIFACT, context.registry.hooks.hook.generate_code(chip=chip, module=module, proceed=proceed))

    def _generate(self, chip: Chip, module: Module, context: PassContext) -> bytes:
        asm = chip.assembler()
        cycles = Cycles(chip, Plan.of(module).order_profiles)
        is_test, is_quick = bool(context.options.get("is_test")), context.options.get("opt") == FIRST_FIT
        emitter = Emitter(cycles, asm, address_of, _coefficients, is_test=is_test, is_quick=is_quick)
        record_first(module, asm, chip.description)
        emitter.run(PlannedFunction.of(context, module))
        emitted = list(zip(asm.instructions, emitter.operations, strict=True))
        record_states(module, asm, chip.description)
        layout = _layout(module, context, tuple(emitter.host_calls))
        layout = replace(layout, inputs=(*layout.inputs, *reset_input(module, chip.description)))
        data = chip.write(module, layout, asm)
        plan = context.find(MEMORY_PLAN)
        if plan is not None:
            layers = layer_commands(module, emitted, asm.instructions)
            context.leave(MEMORY_PLAN, replace(plan, layers=tuple(layers)))
        if is_quick:
            context.leave(RECORDED, (data, asm.instructions))
        return data


def _coefficients(operation: Operation) -> int:
    address = operation.extra_attributes.get(COEFFICIENTS_ADDRESS)
    return address.value if isinstance(address, IntegerAttr) else 0


def _layout(module: Module, context: PassContext, host_calls: tuple[HostCall, ...]) -> CompiledLayout:
    function = module.main
    base, before = _number(module, "module.coeff_addr"), context.find(CONSTANTS, ConstantImage())
    image = np.zeros(_number(module, "module.coeff_size"), np.uint8)
    image[: len(before.data)] = np.frombuffer(before.data, np.uint8)
    places = dict(before.places)
    for operation in function.operations:
        packed = operation.extra_attributes.get(COEFFICIENTS)
        if isinstance(packed, StringAttr):
            data = module.weights[packed.value]
            start = _coefficients(operation) - base
            image[start : start + data.size] = data
            places[digest_of(data)] = start
    write_first_values(module, image, base)
    constants = ConstantImage(image.tobytes(), places)
    context.leave(CONSTANTS, constants)
    given, outputs = visible_ends(module)
    inputs = [one.defining for one in given if one.defining is not None]
    return CompiledLayout(
        name=module.name,
        inputs=tuple(replace(_info(o.result), rounds_evenly=rounds_evenly(o.op), frame=frame_of(o)) for o in inputs),
        outputs=tuple(map(_info, outputs)),
        weights=constants.data,
        weights_address=base,
        activations_address=_number(module, "module.neuron_addr"),
        activations_bytes=_number(module, "module.neuron_size"),
        boundary_address=_number(module, IO_ADDRESS) if IO_ADDRESS in module.attributes else 0,
        boundary_bytes=_number(module, IO_BYTES) if IO_BYTES in module.attributes else 0,
        build_time=context.options.get("build_time"),
        host_calls=host_calls,
        states=states_of(module),
    )


def _number(module: Module, name: str) -> int:
    attribute = module.attributes[name]
    assert isinstance(attribute, IntegerAttr)
    return attribute.value


def _info(value: Value) -> TensorInfo:
    return TensorInfo(value.name, value.tensor.dims, value.tensor.element, address_of(value))
