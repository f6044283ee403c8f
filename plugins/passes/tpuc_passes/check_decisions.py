"""Says how many decisions of the float network a quantised one keeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from tpuc.api import (
    CALIBRATION_TABLE,
    CHECK_SAMPLES,
    QUANTISED,
    SELF_CHECK,
    CalibrationError,
    Module,
    Pass,
    PassContext,
    StringAttr,
    UsageError,
)
from tpuc.api.host import (
    Array,
    Interpreter,
    OutputCheck,
    SampleReader,
    SampleSource,
    SelfCheck,
    decibels,
    inputs_of,
    open_pool,
    pair_inputs,
    real_values,
    types_of,
)

from tpuc_passes.accuracy.channels import channel_elements, eligible
from tpuc_passes.accuracy.deciders import SURE, Agreement, Classes, Decider, Numbers, Presence
from tpuc_passes.accuracy.decisions import deciders_of
from tpuc_passes.accuracy.network import FakeNetwork
from tpuc_passes.calibration.held_out import affordable, spread
from tpuc_passes.calibration.table import CalibrationTable, as_table
from tpuc_passes.correct_bias import noted_shifts
from tpuc_passes.keep_tail_float import float_tail
from tpuc_passes.propagate_calibration import calibrated_copy
from tpuc_passes.scale_channels import noted_thresholds

Outputs: TypeAlias = Mapping[str, Array]
Pairs: TypeAlias = tuple[Sequence[Outputs], Sequence[Outputs]]
"""The outputs of the float network and of the other one, sample by sample, by the names of the float one."""


@dataclass(frozen=True)
class CheckDecisions(Pass):
    """The module is the float one (TOP), and runs on some of the samples in the result `check_samples`, beside the
    module in the result `quantised` that it was lowered to, or beside what the chips compute by the table in the
    result `calibration_table`. Leaves a `SelfCheck` in the result `self_check`, unless there is nothing to compare.
    How near numbers are counts as a decision only in networks that give nothing else.

    `tuned`: has tuning of the table seen the samples? (`none`: nobody knows.)
    """

    name = "check-decisions"
    tuned: bool | None = None

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; the module does not change."""
        samples = context.find(CHECK_SAMPLES)
        if samples is None:
            raise UsageError("pass 'check-decisions' needs samples: use `tpuc calibrate` or `tpuc compile --dataset`")
        places = spread(len(samples), affordable(module))
        chosen = replace(samples, samples=tuple(samples.samples[place] for place in places))
        tpu, table = context.find(QUANTISED), as_table(context.find(CALIBRATION_TABLE))
        pairs = _compiled_pairs(module, tpu, chosen) if tpu is not None else None
        if pairs is None and table is not None:
            pairs = _calibrated_pairs(module, table, chosen, context)
        if pairs is None:
            return False
        deciders = deciders_of(module, pairs[0])
        if deciders:
            are_all = all(isinstance(one, Numbers) for one in deciders)
            checks = tuple(_checked(one, *pairs, counts=are_all or not isinstance(one, Numbers)) for one in deciders)
            shows = _shows_something(deciders, pairs[0])
            context.leave(SELF_CHECK, SelfCheck(_subject(context, tpu), len(pairs[0]), checks, self.tuned, shows))
        return False


def _subject(context: PassContext, tpu: Module | None) -> str:
    mode = tpu.attributes.get("module.mode") if tpu is not None else None
    chip = "" if context.chip is None else f"{context.chip.description.name} "
    return chip + (mode.value.lower() if isinstance(mode, StringAttr) else "int8")


def _shows_something(deciders: Sequence[Decider], wanted: Sequence[Outputs]) -> bool:
    """Is some network output that looks for something sure somewhere, if there are such?"""
    looking = [
        one
        for one in deciders
        if isinstance(one, Presence) or (isinstance(one, Classes) and one.background is not None)
    ]
    return not looking or any((one.sureness(outputs) >= SURE).any() for one in looking for outputs in wanted)


def _readable(samples: SampleSource) -> list[Mapping[str, Array]]:
    reader, rows = SampleReader(samples), list[Mapping[str, Array]]()
    for index in range(len(samples)):
        try:
            rows.append(reader.read(index))
        except CalibrationError:
            continue  # calibration has said so
    return rows


def _compiled_pairs(top: Module, tpu: Module, samples: SampleSource) -> Pairs | None:
    """None where samples are arrays and the compiled network takes images."""
    specs = zip(inputs_of(top), inputs_of(tpu), strict=True)
    mixed = tuple(one if one.name == other.name else other for one, other in specs)
    exact, rounded = Interpreter(top), Interpreter(tpu)
    types = types_of(tpu) | rounded.outputs
    wanted, got = list[Outputs](), list[Outputs]()
    for row in _readable(replace(samples, inputs=mixed)):
        for_top, for_tpu = pair_inputs(top, tpu, row)
        wanted.append(exact.run(for_top))
        found = rounded.run(for_tpu)
        names = zip(exact.output_names, rounded.output_names, strict=True)
        got.append({name: real_values(found[other], types[other]) for name, other in names})
    return (wanted, got) if wanted else None


def _calibrated_pairs(
    module: Module, table: CalibrationTable, samples: SampleSource, context: PassContext
) -> Pairs | None:
    rows = _readable(samples)
    calibrated = calibrated_copy(module, context)
    chip = context.chip.description if context.chip is not None else None
    net = FakeNetwork(calibrated, chip, floats=float_tail(calibrated))
    net.shift_biases(noted_shifts(module, table))
    net.set_elements(channel_elements(eligible(calibrated), noted_thresholds(calibrated, table)))
    runs: list[list[Outputs]] = []
    slots = [slot for _, slot in net.plan.outputs]
    with open_pool() as pool:
        for integer in (False, True):
            states = [net.start(row) for row in rows]
            net.run_together(range(len(net.plan.steps)), states, pool, integer=integer, keep=slots)
            runs.append([net.outputs(state) for state in states])
    return (runs[0], runs[1]) if rows else None


def _checked(decider: Decider, wanted: Sequence[Outputs], got: Sequence[Outputs], *, counts: bool) -> OutputCheck:
    agreement = decider.agreement(wanted, got) if counts else Agreement()
    energies = [_energies(decider.part.of(a), decider.part.of(b)) for a, b in zip(wanted, got, strict=True)]
    signal, noise = (sum(column) for column in zip(*energies, strict=True))
    return OutputCheck(decider.name, agreement.same, agreement.total, decibels(signal, noise))


def _energies(wanted: Array, got: Array) -> tuple[float, float]:
    a, b = wanted.astype(np.float64), got.astype(np.float64)
    if not np.isfinite(b).all():
        return float((a * a).sum()), math.inf
    return float((a * a).sum()), float(((a - b) ** 2).sum())
