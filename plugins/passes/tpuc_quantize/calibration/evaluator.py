"""Evaluate calibration tables: run them on samples and score how well the outputs are preserved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace

import numpy as np
from tpuc.api import Module
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import Pool, decibels
from tpuc_ops.factorization import error_energy, finite_energy

from tpuc_quantize.calibration.candidate import Candidate, Entries
from tpuc_quantize.metrics.agreement import Agreement, CachedOutputs, Outputs, TaskMetric
from tpuc_quantize.metrics.output_heads import task_metrics_of
from tpuc_quantize.metrics.scores import Score, halves
from tpuc_quantize.metrics.taps import Measure, measure_of, slots_to_see
from tpuc_quantize.options.tuning import CHECKS
from tpuc_quantize.simulation.network import FakeNetwork, State
from tpuc_quantize.simulation.output_slots import rearranges
from tpuc_quantize.tables.table import TensorThreshold


@dataclass(frozen=True)
class _Run:
    """The results of consecutive samples from `first`: their outputs, and the companded values in which errors are
    measured.
    """

    first: int
    outputs: list[Outputs]
    measured: list[list[Array]]

    @property
    def end(self) -> int:
        """Index after the last of its samples."""
        return self.first + len(self.outputs)

    def __add__(self, other: _Run) -> _Run:
        return _Run(self.first, self.outputs + other.outputs, self.measured + other.measured)


@dataclass
class Evaluator:
    """Runs samples through quantized networks in `pool`. `quantized` builds the network of a candidate; all should
    share their int8 filters. `floats` are the known final states of the samples in the float network.
    """

    module: Module
    samples: Sequence[Mapping[str, Array]]
    quantized: Callable[[Candidate], FakeNetwork]
    pool: Pool
    floats: InitVar[Sequence[State] | None] = None
    exact: FakeNetwork = field(init=False)
    task_metrics: tuple[TaskMetric, ...] = field(init=False)
    measure: Measure = field(init=False)
    wanted: _Run = field(init=False)
    _signals: Array = field(init=False)
    """Signal energy per sample and output: `[samples, outputs]`."""

    def __post_init__(self, floats: Sequence[State] | None) -> None:
        self.exact = FakeNetwork(self.module)
        states = floats
        if states is None:
            states = self.exact.run_all(self.samples, self.pool, integer=False, keep=slots_to_see(self.exact))
        task_metrics = task_metrics_of(self.module, [self.exact.outputs(one) for one in states])
        self.measure = measure_of(self.exact, task_metrics, states)
        self.task_metrics = tuple(self.measure.metric(one) for one in task_metrics)
        self.wanted = self._taken(self.exact, states, 0)
        self._signals = np.array([[finite_energy(one) for one in sample] for sample in self.wanted.measured])

    def powers(self) -> dict[str, float]:
        """The mean squares of companded outputs, by name."""
        result: dict[str, float] = {}
        for place, slot in enumerate(self.measure.slots):
            if slot in self.measure.units:
                squares = [float(np.mean(one[place] ** 2)) for one in self.wanted.measured]
                result[self.exact.plan.names[slot]] = float(np.mean(squares))
        return result

    def saturated(self, entries: Entries) -> dict[str, TensorThreshold]:
        """The entries, with thresholds of far-reaching logits limited to where logits saturate, and those of values
        concatenated from them likewise.
        """
        result, names, changed = dict(entries), self.exact.plan.names, set[str]()
        for slot, limit in self.measure.enough.items():
            if names[slot] in result:
                result[names[slot]] = replace(result[names[slot]], threshold=limit)
                changed.add(names[slot])
        for operation in self.module.main.operations:
            parts = [operand.name for operand in operation.operands if operand.name in result]
            if rearranges(operation.op) and not changed.isdisjoint(parts):
                name = operation.result.name
                result[name] = replace(result[name], threshold=max(result[part].threshold for part in parts))
                changed.add(name)
        return result

    def evaluate(self, candidate: Candidate, best: Score | None = None) -> Score:
        """The score of the outputs with a candidate's thresholds and biases. A candidate hopeless against `best` runs
        on half or a quarter of the samples; every figure is then as many decibels below `best` as on those.
        """
        net, count = self.quantized(candidate), len(self.samples)
        net.shift_biases(candidate.shifts)
        middle = count // 2
        early = middle // 2 if count >= CHECKS.few_samples else 0
        first = self._run(net, 0, early)
        quarter = _decibels(self._energies(first)) if early else math.nan
        if best is not None and best.is_early_far_above(quarter):
            score = self._scored(first, math.nan, quarter)
            if score.is_hopeless_against(best):
                return score.beside(best, best.quarter - quarter)
        first += self._run(net, early, middle)
        half = _decibels(self._energies(first))
        if best is not None and best.is_far_above(half):
            score = self._scored(first, half)
            if score.is_hopeless_against(best):
                return score.beside(best, best.half - half)
        return self._scored(first + self._run(net, middle, count), half, quarter)

    def _scored(self, run: _Run, half: float, quarter: float = math.nan) -> Score:
        """The score of a run; `half` and `quarter` are means over the outputs on the first half and quarter of the
        samples.
        """
        wanted = self.wanted.outputs[run.first : run.end]
        pairs = list(zip(wanted, run.outputs, strict=True))
        metrics = [np.array([metric.energies(*pair) for pair in pairs]).reshape(-1, 2) for metric in self.task_metrics]
        agreement = sum((metric.agreement(wanted, run.outputs) for metric in self.task_metrics), Agreement())
        mean = _decibels(self._energies(run))
        return Score(mean, half, tuple(map(halves, metrics)), agreement, len(self.samples), quarter, run.end)

    def _energies(self, run: _Run) -> Array:
        """Signal and noise of each output over some samples: `[outputs, 2]`."""
        sums = np.zeros((len(self.measure.slots), 2))
        for place, got in enumerate(run.measured, run.first):
            noise = [error_energy(a, b) for a, b in zip(self.wanted.measured[place], got, strict=True)]
            sums += np.stack([self._signals[place], noise], axis=1)
        return sums

    def _run(self, net: FakeNetwork, first: int, end: int) -> _Run:
        states = net.run_all(self.samples[first:end], self.pool, integer=True, keep=self.measure.slots)
        return self._taken(net, states, first)

    def _taken(self, net: FakeNetwork, states: Sequence[State], first: int) -> _Run:
        outputs: list[Outputs] = [CachedOutputs(self.measure.outputs(net, one)) for one in states]
        return _Run(first, outputs, [self.measure.values(one) for one in states])


def states_of(net: FakeNetwork, samples: Iterable[Mapping[str, Array] | None]) -> list[State] | None:
    """Final float states from what is known of each sample by name; None where that does not cover everything
    measured.
    """
    slots, wanted = {name: slot for slot, name in net.plan.names.items()}, slots_to_see(net)
    states: list[State] = []
    for values in samples:
        state = State([None] * net.plan.slots, [None] * net.plan.slots)
        for name, array in (values or {}).items():
            if name in slots:
                state.values[slots[name]] = array
        if any(state.values[slot] is None for slot in wanted):
            return None
        states.append(state)
    return states


def _decibels(sums: Array) -> float:
    ratios = [decibels(signal, noise) for signal, noise in sums.tolist() if signal > 0 and noise != 0]
    return sum(ratios) / len(ratios) if ratios else math.inf
