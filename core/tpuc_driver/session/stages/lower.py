"""Lower a TOP module to a TPU module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tpuc.api.function import FunctionChip
from tpuc.errors import CalibrationError, UsageError
from tpuc.ir import Module
from tpuc.ir.state import State, keep_states, states_of
from tpuc.ir.traits import NetworkInput
from tpuc.schedule import PassManager
from tpuc.schedule.results import CALIBRATION_TABLE, QUANTIZE_TABLE, STORED_INPUTS

from tpuc_driver.session.border import name_outputs
from tpuc_driver.session.boundary import Boundary
from tpuc_driver.session.configuration import Configuration
from tpuc_driver.session.modes import needs_calibration, takes_calibration
from tpuc_driver.session.values import Recipe, Staged


def lower(configuration: Configuration, top: Module, recipe: Recipe) -> Staged:
    """Lower a copy of a TOP module, with calibration if the mode takes it. Raises CalibrationError if a required table
    is missing.
    """
    module, mode = top.clone(), configuration.mode_for(top)
    chip, boundary = configuration.chip, recipe.boundary
    if boundary is not None and (states := boundary.states(top)):
        _keep(module, states)
    chip.description.check_states(module)
    if isinstance(chip, FunctionChip) and chip.keeps_integers:
        boundary = (boundary or Boundary()).keeping_integers(top)
    wishes = {} if boundary is None else boundary.wishes(len(module.main.outputs))
    if states_of(module) and not (boundary is not None and boundary.quant_input):
        # a state is stored as it comes out
        kept = {state.input for state in states_of(module)}
        inputs = [one for one in module.main.operations if isinstance(one.op, NetworkInput)]
        others = frozenset(index for index, one in enumerate(inputs) if one.name not in kept)
        wishes[STORED_INPUTS] = others & wishes.get(STORED_INPUTS, others)
    context = configuration.context(wishes, mode)
    manager = configuration.manager(context)
    needed = needs_calibration(mode, module)
    if needed or (recipe.calibration_table is not None and takes_calibration(mode, module)):
        if recipe.calibration_table is None:
            raise CalibrationError(
                f"{module.name}: {mode} needs a calibration table; make one with `tpuc calibrate` and give it "
                "with --calibration-table"
            )
        with configuration.clock.timed("calibrate"):
            context.leave(CALIBRATION_TABLE, recipe.calibration_table)
            manager.run_pipeline("calibrate", module)
    if isinstance(recipe.quantize_table, Mapping):
        context.leave(QUANTIZE_TABLE, recipe.quantize_table)
    with configuration.clock.timed("lower"):
        _run(configuration, manager, module, replace(recipe, boundary=boundary))
    return Staged(module, mode, context.results)


def _run(configuration: Configuration, manager: PassManager, module: Module, recipe: Recipe) -> None:
    registry = configuration.registry
    if isinstance(recipe.quantize_table, Path):
        definition = registry.get("tpuc.passes", "import-quantize-table")
        manager.run(module, [definition(table=str(recipe.quantize_table))], "lower")
    names, states = [value.name for value in module.main.outputs], states_of(module)
    manager.run_pipeline("lower", module)
    if isinstance(configuration.chip, FunctionChip):  # nobody but its users reads what it is compiled to
        name_outputs(module, names)
    boundary = recipe.boundary
    if boundary is not None and states:
        outputs = dict(zip(names, module.main.outputs, strict=True))
        inputs = {one.name: one.result for one in module.main.operations if isinstance(one.op, NetworkInput)}
        boundary = boundary.with_equal_states(module, [(inputs[one.input], outputs[one.output]) for one in states])
    if boundary is not None:
        manager.run(module, boundary.passes(registry), "lower")
    if states:
        called = dict(zip(names, (value.name for value in module.main.outputs), strict=True))
        _keep(module, [replace(state, output=called[state.output]) for state in states])
    manager.run_pipeline("tpu-optimize", module)


def _keep(module: Module, states: Sequence[State]) -> None:
    try:
        keep_states(module, states)
    except ValueError as error:
        raise UsageError(
            f"{module.name}: {error}; choose others with --state-pair, or leave out --state internal."
        ) from error
