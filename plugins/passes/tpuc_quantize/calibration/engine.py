"""Calibrate from samples to table: statistics, thresholds and tuning, each spread over a worker pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from tpuc.api import CalibrationError, Calibrator, Module, PassContext
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import Pool, PortableModule, SampleSource, small_units_of
from tpuc_ops.quantized import Product

from tpuc_quantize.calibration.candidate import Candidate
from tpuc_quantize.calibration.race import Race
from tpuc_quantize.calibration.range_margins import with_whole_scores
from tpuc_quantize.calibration.search import Search, Settings, kept_for
from tpuc_quantize.observers.collector import Counting, Kept, StatisticsJob, UnitResult, merge_histograms
from tpuc_quantize.observers.progress_file import Progress, fingerprint, load, save
from tpuc_quantize.ranges.estimators import Max, limited_threshold
from tpuc_quantize.remedies.bias_correction import SHIFTS
from tpuc_quantize.remedies.channel_thresholds import CHANNEL_THRESHOLDS
from tpuc_quantize.remedies.round_weights import ROUNDING, rounding_lines
from tpuc_quantize.remedies.weight_rounding import changes_of
from tpuc_quantize.scaling.move_factors import FACTORS, move_factors
from tpuc_quantize.simulation.network import FakeNetwork
from tpuc_quantize.tables.annotations import annotation_lines
from tpuc_quantize.tables.history import Origin, Stage
from tpuc_quantize.tables.table import TensorThreshold

SAVE_EVERY = 32
"""Work units between two saves of the statistics file."""


@dataclass(frozen=True)
class Found:
    """The best candidate, the samples used for tuning, the reason for the choice, and its origin. `rounding`: by how
    many steps filter integers differ from the nearest.
    """

    best: Candidate
    tuned: int
    reasons: tuple[str, ...]
    origin: Origin
    rounding: Mapping[str, Array] = field(default_factory=dict[str, Array])

    @property
    def annotations(self) -> dict[str, tuple[str, ...]]:
        """The sections of a table with numbers per channel."""
        found = {FACTORS: self.best.factors, SHIFTS: self.best.shifts, CHANNEL_THRESHOLDS: self.best.channels}
        lines = {name: annotation_lines(values) for name, values in found.items() if values}
        return lines | ({ROUNDING: rounding_lines(self.rounding)} if self.rounding else {})


@dataclass(frozen=True)
class Engine:
    """What a calibration needs besides the samples. `statistics` is the file to save to, `resume` the one to continue
    from. With `strict` an unreadable sample is an error.
    """

    module: Module
    context: PassContext
    pool: Pool
    counting: Counting
    resume: Path | None = None
    statistics: Path | None = None
    strict: bool = False

    @property
    def network(self) -> PortableModule:
        """The module in the form that workers receive."""
        return PortableModule(self.module, self.context.registry)

    @cached_property
    def _fingerprint(self) -> str:
        return fingerprint(self.module)

    def begin(self, samples: SampleSource) -> Progress:
        """Empty statistics, or those of the file `resume`, with `samples` added."""
        if self.resume is None or not self.resume.exists():
            return Progress(samples, self.counting)
        progress = load(self.resume, self._fingerprint, samples.inputs, self.counting)
        progress.extend(samples)
        if self.counting.counting and not progress.counting.counting:
            self.context.log(f"{self.resume}: holds ranges only, all samples are seen again")
            return Progress(progress.samples, self.counting)
        new = len(progress.samples) - progress.seen
        self.context.log(f"{self.resume}: goes on with {progress.seen} samples, {new} more to see")
        return progress

    def kept(
        self, progress: Progress, settings: Settings, held_out: Sequence[int] = (), *, checks: bool = False
    ) -> Kept:
        """As `kept_for`; with worker processes no whole samples, which would have to be copied."""
        found = kept_for(self.module, progress, settings, held_out, checks=checks)
        return found if self.pool.in_process else replace(found, whole=frozenset())

    def collect(self, progress: Progress, kept: Kept | None = None) -> None:
        """Update the statistics to the last sample, and keep what later stages need of some samples."""
        job = StatisticsJob(self.network, progress.samples, progress.counting, kept or Kept())
        first = progress.seen
        samples = range(first, len(progress.samples))
        units = tuple(samples[unit.start : unit.stop] for unit in small_units_of(len(samples)))
        results = self.context.progress(self.pool.map(job, units), "calibrating: statistics", len(units))
        for number, (unit, result) in enumerate(zip(units, results, strict=True), 1):
            self._take(progress, unit, result)
            if number % SAVE_EVERY == 0:
                self._save(progress)
        self._save(progress)
        for index, reason in progress.skipped.items():
            if index >= first:
                self.context.remark(f"left out: {reason}")
        if len(progress.skipped) == len(progress.samples):
            raise CalibrationError(f"none of the {len(progress.samples)} samples can be read. Check the data set.")
        if progress.skipped:
            self.context.remark(f"{len(progress.skipped)} of {len(progress.samples)} samples left out")

    def _take(self, progress: Progress, unit: range, result: UnitResult) -> None:
        for index, reason in result.unreadable:
            if self.strict:
                raise CalibrationError(reason)
            progress.skipped[index] = reason
        merge_histograms(progress.histograms, result.histograms)
        progress.outputs |= result.outputs
        progress.values |= result.values
        progress.products |= result.products
        progress.seen = unit.stop

    def _save(self, progress: Progress) -> None:
        if self.statistics is not None:
            save(self.statistics, progress, self._fingerprint)

    def thresholds(
        self, progress: Progress, calibrator: Calibrator, given: frozenset[str], counts: frozenset[str]
    ) -> Candidate:
        """The method's threshold of every value; inputs in `given` and `counts` keep their largest magnitude."""
        chosen: dict[str, TensorThreshold] = {}
        observed: dict[str, float] = {}
        proposed: dict[str, float] = {}
        depths = _depths(self.module)
        for name, histogram in progress.histograms.items():
            seen = histogram.statistics(depths.get(name, 0.0))
            method = Max() if name in given | counts or seen.absmax == 0 else calibrator
            proposed[name], observed[name] = method.threshold(seen), seen.absmax
            chosen[name] = TensorThreshold(limited_threshold(proposed[name], seen), seen.minimum, seen.maximum)
        kept = {"network inputs keep their largest magnitude": given, "counts keep their largest magnitude": counts}
        limited = {name: one.threshold for name, one in chosen.items() if one.threshold != proposed[name]}
        stages = (
            Stage(f"largest magnitude of {len(progress.samples) - len(progress.skipped)} samples", observed),
            Stage(
                f"range estimator '{calibrator.name}'", {n: t for n, t in proposed.items() if n not in given | counts}
            ),
            *(
                Stage(place, {name: observed[name] for name in names & observed.keys()})
                for place, names in kept.items()
            ),
            Stage("limited to what was seen, and to 1e-5 or more", limited),
        )
        return Candidate(calibrator.name, chosen, stages=stages)

    def search(
        self, progress: Progress, methods: Sequence[Calibrator], given: frozenset[str], settings: Settings
    ) -> Found:
        """The candidate selected by the race."""
        race = Race(self.search_of(progress, methods, given, settings), self.context.registry)
        best = race.run()
        best = best.through("thresholds per channel beside it", best.entries, best.channels or {})
        rounding = changes_of(FakeNetwork(race.search.module), best.rounding) if best.rounding else {}
        tuned = len(race.search.observable(settings.tune_num))
        return Found(best, tuned, tuple(race.reasons), Origin(best.stages, tuple(race.rounds)), rounding)

    def search_of(
        self,
        progress: Progress,
        methods: Sequence[Calibrator],
        given: frozenset[str],
        settings: Settings,
        factors: Mapping[str, Array] | None = None,
    ) -> Search:
        """The search on the network with channel factors moved. Integers that count things, and values in `given`, keep
        their largest magnitude.
        """

        def equalized(factors: Mapping[str, Array]) -> Search:
            rounded = replace(settings, round_weights=True)
            engine, again = self._with_factors(progress, factors, rounded)
            return engine.search_of(again, methods, given, rounded, factors)

        counts = frozenset(name for name, one in progress.histograms.items() if one.is_categorical)
        tables = [self.thresholds(progress, one, given, counts) for one in methods]
        if settings.tune_num:
            tables = [with_whole_scores(one, self.module) for one in tables]
        tables = [replace(one, factors=factors or {}) for one in tables]
        held, first = given | counts, tables[-1 if settings.tune_num else 0]
        return Search(self.module, self.context, self.pool, progress, settings, tables, held, first, equalized)

    def _with_factors(
        self, progress: Progress, factors: Mapping[str, Array], settings: Settings
    ) -> tuple[Engine, Progress]:
        """The engine of the network with these channel factors moved, and its statistics, without repeating remarks."""
        progress.values.clear()
        module = self.module.clone()
        move_factors(module, factors)
        again = Progress(progress.samples, progress.counting, keys=progress.keys)
        engine = replace(self, module=module, resume=None, statistics=None)
        kept = engine.kept(replace(again, skipped=progress.skipped), settings)
        replace(engine, context=replace(self.context, remark=self.context.log)).collect(again, kept)
        return engine, replace(again, skipped=progress.skipped)


def _depths(module: Module) -> dict[str, float]:
    """The depth of each value by name, from 0 to 1: the share of the network's products computed up to there. Other
    ops, and ops that expand into several, add no depth.
    """
    seen, places = 0, dict[str, int]()
    for operation in module.main.operations:
        seen += isinstance(operation.op, Product)
        places |= {result.name: seen for result in operation.results}
    return {name: place / max(seen, 1) for name, place in places.items()}
