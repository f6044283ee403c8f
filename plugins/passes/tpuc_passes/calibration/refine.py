"""From thresholds of single tensors to a table for the network: candidates, and the one that keeps the answers best."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import Calibrator, Module, PassContext
from tpuc.api.host import Array, Pool, PortableModule, SampleReader, SampleSource, one_blas_thread, units_of

from tpuc_passes.accuracy.bias import find_filter_shifts, find_shifts
from tpuc_passes.accuracy.network import FakeNetwork
from tpuc_passes.calibration.importance import ImportanceJob, PowerJob, choose_by_answers, merged, merged_powers
from tpuc_passes.calibration.progress_file import Progress
from tpuc_passes.calibration.table import CalibrationTable, TensorThreshold
from tpuc_passes.calibration.tune import TuneJob, candidates_of, choose, total
from tpuc_passes.calibration.verdict import VerdictJob, decibels
from tpuc_passes.import_calibration import ImportCalibration
from tpuc_passes.propagate_calibration import PropagateCalibration

JUDGES = 8
"""Samples on which whole tables are compared."""
LEAST_GAIN_DB = 0.1

Entries = Mapping[str, TensorThreshold]


@dataclass(frozen=True)
class Refinement:
    """Samples for tuning and for biases (0: none), thresholds per value, and methods to compare with."""

    tune_num: int = 10
    tune_candidates: int = 10
    bias_num: int = 16
    others: tuple[Calibrator, ...] = ()


@dataclass
class Refiner:
    """One calibration's tuning. `tuned` is how many samples it used."""

    module: Module
    context: PassContext
    pool: Pool
    progress: Progress
    options: Refinement
    tuned: int = 0

    def tune(self, entries: Entries, others: Sequence[Entries], given: frozenset[str]) -> dict[str, TensorThreshold]:
        """The best of: each method's thresholds tuned op by op, and the last one's tuned by what reaches the answers."""
        samples = self._spread(self.options.tune_num)
        self.tuned = len(samples)
        if not self.tuned:
            return dict(entries)
        lowest = {
            name: min((one[name] for one in (entries, *others)), key=lambda entry: entry.threshold) for name in entries
        }
        candidates = [dict(one) for one in (entries, *others)]
        choices = candidates_of(lowest, self.options.tune_candidates)
        if choices:
            job = TuneJob(PortableModule(self.module, self.context.registry), samples, lowest, choices)
            distances = total(self._map(job, samples, "tuning"))
            candidates = [choose(job, distances, lowest, one) for one in candidates]
        candidates.append(self._by_answers(candidates[-1] if not others else others[-1], samples, given))
        shifts = self._filter_shifts(entries)
        verdicts = [self._verdict(one, shifts) for one in candidates]
        self.context.log(f"tables compared: {', '.join(f'{verdict:.2f}' for verdict in verdicts)} dB")
        return candidates[int(np.argmax(verdicts))]

    def _by_answers(self, entries: Entries, samples: SampleSource, given: frozenset[str]) -> dict[str, TensorThreshold]:
        network = PortableModule(self.module, self.context.registry)
        powers = merged_powers(self._map(PowerJob(network, samples), samples, "powers"))
        limits = {name: max(-one.minimum, one.maximum) for name, one in entries.items() if name not in given}
        limits = {name: limit for name, limit in limits.items() if limit > 0}
        job = ImportanceJob(network, samples, limits, powers)
        return choose_by_answers(entries, merged(self._map(job, samples, "sensitivities")))

    def shifts(self, entries: Entries) -> dict[str, Array]:
        """Per product what its bias should gain: the mean error of its filters, or all that int8 leaves up to there
        where the answers are better for it. A network that is mostly noise is not: its answers would be the mean.
        """
        samples = self._spread(self.options.bias_num)
        if not len(samples):
            return {}
        local = self._filter_shifts(entries)
        everything = self._shifts(entries, samples)
        choices: list[dict[str, Array]] = [local, everything, {}]
        verdicts = [self._verdict(entries, one) for one in choices]
        self.context.log(f"biases compared: {', '.join(f'{verdict:.2f}' for verdict in verdicts)} dB")
        return choices[int(np.argmax(verdicts))]

    def _filter_shifts(self, entries: Entries) -> dict[str, Array]:
        samples = self._spread(self.options.bias_num)
        if not len(samples):
            return {}
        reader = SampleReader(samples)
        with one_blas_thread():
            net = FakeNetwork(self._calibrated(entries))
            return find_filter_shifts(net, [reader.read(i) for i in range(len(samples))], self.context.progress)

    def _shifts(self, entries: Entries, samples: SampleSource) -> dict[str, Array]:
        reader = SampleReader(samples)
        with one_blas_thread():
            net = FakeNetwork(self._calibrated(entries))
            return find_shifts(net, [reader.read(i) for i in range(len(samples))], self.context.progress)

    def _verdict(self, entries: Entries, shifts: Mapping[str, Array]) -> float:
        """Decibels of the answers on samples that tuning has not seen, where there are enough."""
        samples = self._spread(JUDGES, skip_first=True)
        job = VerdictJob(PortableModule(self._calibrated(entries), self.context.registry), samples, shifts)
        return decibels([one for unit in self._map(job, samples, "comparing") for one in unit])

    def _calibrated(self, entries: Entries) -> Module:
        calibrated = self.module.clone()
        context = dataclasses.replace(self.context, results={"calibration_table": CalibrationTable(entries)})
        ImportCalibration().run(calibrated, context)
        PropagateCalibration().run(calibrated, context)
        return calibrated

    def _map(self, job: Any, samples: SampleSource, what: str) -> Iterable[Any]:
        # One sample per unit: there are few, and each is much work.
        units = units_of(len(samples), 1)
        return list(self.context.progress(self.pool.map(job, units), f"calibrating: {what}", len(units)))

    def _spread(self, count: int, *, skip_first: bool = False) -> SampleSource:
        """So many samples that can be read, evenly over the data set; `skip_first`: from the middles between those."""
        progress = self.progress
        usable = [index for index in range(len(progress.samples)) if index not in progress.skipped]
        step = max(len(usable) / count, 1.0) if count else 0.0
        first = step / 2 if skip_first else 0.0
        places = [int(first + step * place) for place in range(min(count, len(usable)))]
        chosen = [usable[place % len(usable)] for place in places]
        return dataclasses.replace(progress.samples, samples=tuple(progress.samples.samples[i] for i in chosen))
