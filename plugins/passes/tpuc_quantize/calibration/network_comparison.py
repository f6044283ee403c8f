"""Compare a network with an equivalent one that has other filters, such as equalized ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from tpuc.api import CALIBRATION_TABLE, Module
from tpuc.api.evaluation import Array

from tpuc_quantize.calibration.candidate import Candidate
from tpuc_quantize.calibration.evaluator import Evaluator
from tpuc_quantize.calibration.search import Search
from tpuc_quantize.importing.propagate_calibration import calibrated_copy
from tpuc_quantize.metrics.scores import Score
from tpuc_quantize.metrics.taps import slots_to_see
from tpuc_quantize.options.budgets import BUDGETS, affordable
from tpuc_quantize.options.tuning import COMPARISON
from tpuc_quantize.simulation.network import FakeNetwork, State
from tpuc_quantize.tables.history import Entrant, Round
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold

Samples = Sequence[Mapping[str, Array]]


_LOOKS = (
    (1, COMPARISON.clear_gain),
    (BUDGETS.alike // 4, COMPARISON.clearly),
    (BUDGETS.alike, COMPARISON.equalized),
)
"""Numbers of samples, and the gain in decibels on them that justifies more samples."""


class Comparison(NamedTuple):
    """Whether the other network is clearly better, the figures, and the round of the comparison."""

    is_better: bool
    reason: str
    round: Round


def compare_networks(search: Search, other: Module, proposer: str, name: str) -> Comparison:
    """Compare by outputs, with thresholds at the largest magnitudes of some samples: one sample first, then more."""
    is_better, reason, ran = False, "", Round("network", "", "", ())
    for count, gain in _LOOKS:
        samples = _some(search, affordable(search.module, BUDGETS.observation, count))
        before, after = (_scored(form, search, samples) for form in (search.module, other))
        reason = f"{name}: outputs {after.decibels:.2f} dB instead of {before.decibels:.2f} dB at the largest values"
        search.context.log(reason)
        is_worse = count == BUDGETS.alike and after.is_clearly_worse_than(before)
        is_better = after.combined >= before.combined + gain and not is_worse
        forms = (
            Entrant("", "as it is", before.runs, str(before), not is_better),
            Entrant(proposer, name, after.runs, str(after), is_better),
        )
        rule = f"what is {gain:g} dB better with thresholds at the largest magnitudes"
        ran = Round("network", rule, f"{len(samples)} network evaluations for each", forms)
        if not is_better:
            break
    return Comparison(is_better, reason, ran)


def _some(search: Search, count: int) -> Samples:
    """That many of the samples on which tables are compared."""
    return search.samples(search.progress.usable[-count:])


def _scored(module: Module, search: Search, samples: Samples) -> Score:
    """The score of the network with thresholds at the largest magnitudes."""
    exact = FakeNetwork(module)
    names = exact.plan.names
    seen = {*slots_to_see(exact), *(slot for _, slot in exact.plan.outputs)}
    entries: dict[str, TensorThreshold] = {}
    floats: list[State] = []
    for state in exact.start_all(samples):
        exact.run_batches(range(len(exact.plan.steps)), [state], search.pool, integer=False, keep={*names, *seen})
        for slot, name in names.items():
            if (value := state.values[slot]) is not None:
                entries[name] = _widened(entries.get(name), value)
        state.values = [value if slot in seen else None for slot, value in enumerate(state.values)]
        floats += exact.unbatched([state])

    def quantized(candidate: Candidate) -> FakeNetwork:
        table = {CALIBRATION_TABLE: CalibrationTable(candidate.entries)}
        return FakeNetwork(calibrated_copy(module, dataclasses.replace(search.context, results=table)))

    return Evaluator(module, samples, quantized, search.pool, floats).evaluate(Candidate("", entries))


def _widened(entry: TensorThreshold | None, value: Array) -> TensorThreshold:
    low, high = float(value.min()), float(value.max())
    if entry is not None:
        low, high = min(low, entry.minimum), max(high, entry.maximum)
    return TensorThreshold(max(-low, high, float(np.finfo(np.float32).tiny)), low, high)
