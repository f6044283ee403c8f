"""Decides whether equalized weights bring a network closer to float."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from tpuc.api import CALIBRATION_TABLE, Module, PassContext
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import Pool, SampleReader

from tpuc_quantize.calibration.candidate import Candidate
from tpuc_quantize.calibration.evaluator import Evaluator
from tpuc_quantize.importing.propagate_calibration import calibrated_copy
from tpuc_quantize.metrics.scores import Score
from tpuc_quantize.metrics.taps import slots_to_see
from tpuc_quantize.observers.held_out import samples_at, spread
from tpuc_quantize.observers.progress_file import Progress
from tpuc_quantize.options.budgets import BUDGETS, affordable
from tpuc_quantize.options.tuning import COMPARISON
from tpuc_quantize.scaling.equalize_weights import EqualiseWeights
from tpuc_quantize.simulation.network import FakeNetwork, State
from tpuc_quantize.tables.history import Entrant, Round
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold

Samples = Sequence[Mapping[str, Array]]


@dataclass(frozen=True)
class Equalised:
    """The factors by which weights are equalised, by the value they belong to, and the sentence that says why."""

    factors: Mapping[str, Array] = field(default_factory=dict[str, Array])
    reasons: tuple[str, ...] = ()
    rounds: tuple[Round, ...] = ()


def equalised_where_better(module: Module, context: PassContext, pool: Pool, progress: Progress) -> Equalised:
    """Nothing where outputs are not clearly nearer to float for it, with thresholds at the largest magnitudes of some
    samples.
    """
    equalised = module.clone()
    factors = EqualiseWeights().equalize(equalised)
    if not factors:
        return Equalised()
    said, ran = "", Round("network", "", "", ())
    for count, gain in ((1, COMPARISON.clear_gain), (BUDGETS.alike, COMPARISON.equalized)):
        samples = _some(progress, affordable(module, BUDGETS.observation, count))
        before, after = (_scored(form, context, pool, samples) for form in (module, equalised))
        said = f"outputs {after.decibels:.2f} dB instead of {before.decibels:.2f} dB"
        context.log(f"filters equalised: {said}")
        is_no_better = after.combined < before.combined + gain or (count > 1 and after.is_clearly_worse_than(before))
        forms = (
            Entrant("", "as it is", before.runs, str(before), is_no_better),
            Entrant("cross-layer-equalization", "equalized", after.runs, str(after), not is_no_better),
        )
        rule = f"what is {gain:g} dB better with thresholds at the largest magnitudes"
        ran = Round("network", rule, f"{len(samples)} network evaluations for each", forms)
        if is_no_better:
            return Equalised(rounds=(ran,))
    reasons = (f"filters equalised, by factors of {len(factors)} values: {said} at the largest values",)
    return Equalised(factors, reasons, (ran,))


def _some(progress: Progress, count: int) -> Samples:
    """So many of the samples that can be read."""
    usable = [place for place in range(len(progress.samples)) if place not in progress.skipped]
    chosen = samples_at(progress, [usable[place] for place in spread(len(usable), count)])
    reader = SampleReader(chosen)
    return [reader.read(place) for place in range(len(chosen))]


def _scored(module: Module, context: PassContext, pool: Pool, samples: Samples) -> Score:
    """On the network with thresholds at the largest magnitudes."""
    exact = FakeNetwork(module)
    names = exact.plan.names
    seen = {*slots_to_see(exact), *(slot for _, slot in exact.plan.outputs)}
    entries: dict[str, TensorThreshold] = {}
    floats: list[State] = []
    for state in exact.start_all(samples):
        exact.run_together(range(len(exact.plan.steps)), [state], pool, integer=False, keep={*names, *seen})
        for slot, name in names.items():
            if (value := state.values[slot]) is not None:
                entries[name] = _widened(entries.get(name), value)
        state.values = [value if slot in seen else None for slot, value in enumerate(state.values)]
        floats += exact.apart([state])

    def quantized(candidate: Candidate) -> FakeNetwork:
        table = {CALIBRATION_TABLE: CalibrationTable(candidate.entries)}
        return FakeNetwork(calibrated_copy(module, dataclasses.replace(context, results=table)))

    return Evaluator(module, samples, quantized, pool, floats).evaluate(Candidate("", entries))


def _widened(entry: TensorThreshold | None, value: Array) -> TensorThreshold:
    low, high = float(value.min()), float(value.max())
    if entry is not None:
        low, high = min(low, entry.minimum), max(high, entry.maximum)
    return TensorThreshold(max(-low, high, float(np.finfo(np.float32).tiny)), low, high)
