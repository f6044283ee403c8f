"""Calibrates from samples to table: statistics, thresholds, tuning, each spread over a pool of workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tpuc.api import CalibrationError, Calibrator, Module, PassContext
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import Pool, PortableModule, SampleSource, small_units_of
from tpuc_ops.quantised import Product

from tpuc_quantize.calibration.candidate import Candidate
from tpuc_quantize.calibration.candidate_search import Refined, Refinement, Refiner, kept_for
from tpuc_quantize.calibration.equalization import equalised_where_better
from tpuc_quantize.calibration.range_margins import with_headroom, with_output_headroom
from tpuc_quantize.observers.collector import Counting, Kept, StatisticsJob, UnitResult, merge_histograms
from tpuc_quantize.observers.progress_file import Progress, fingerprint, load, save
from tpuc_quantize.ranges.estimators import Max, limited_threshold
from tpuc_quantize.scaling.move_factors import move_factors
from tpuc_quantize.tables.history import Origin, Stage
from tpuc_quantize.tables.table import TensorThreshold

SAVE_EVERY = 32
"""Units between two writings of the statistics file."""


@dataclass(frozen=True)
class Engine:
    """What a calibration needs besides the samples. `statistics` is the file to save to, `resume` the one to go on
    from. With `strict` a sample that cannot be read ends it.
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
        """The module as workers get it."""
        return PortableModule(self.module, self.context.registry)

    @cached_property
    def _fingerprint(self) -> str:
        return fingerprint(self.module)

    def begin(self, samples: SampleSource) -> Progress:
        """Nothing yet, or what the file `resume` holds, with `samples` added."""
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

    def collect(self, progress: Progress, kept: Kept | None = None) -> None:
        """Bring the statistics up to the last sample, and keep what is wanted of some."""
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
            raise CalibrationError(f"none of the {len(progress.samples)} samples can be read. Replace the data set.")
        if progress.skipped:
            self.context.remark(f"{len(progress.skipped)} of {len(progress.samples)} samples left out")

    def _take(self, progress: Progress, unit: range, result: UnitResult) -> None:
        for index, reason in result.unreadable:
            if self.strict:
                raise CalibrationError(reason)
            progress.skipped[index] = reason
        merge_histograms(progress.histograms, result.histograms)
        progress.outputs |= result.outputs
        progress.seen = unit.stop

    def _save(self, progress: Progress) -> None:
        if self.statistics is not None:
            save(self.statistics, progress, self._fingerprint)

    def thresholds(
        self, progress: Progress, calibrator: Calibrator, given: frozenset[str], counts: frozenset[str]
    ) -> Candidate:
        """What the method says of every value; inputs in `given` and `counts` keep their largest magnitude."""
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

    def refine(self, progress: Progress, calibrator: Calibrator, given: frozenset[str], options: Refinement) -> Refined:
        """What keeps the outputs best, with equalised filters where they are clearly nearer to float so. These are
        rounded by what they are multiplied with, too, however long that takes.
        """
        if not options.tune_num:
            return self.refined(progress, calibrator, given, options)
        equalised = equalised_where_better(self.module, self.context, self.pool, progress)
        if not equalised.factors:
            found = self.refined(progress, calibrator, given, options)
        else:
            engine, progress = self._with_factors(progress, equalised.factors)
            found = engine.refined(progress, calibrator, given, replace(options, round_weights=True))
        rounds = (*equalised.rounds, *found.origin.rounds)
        reasons = (*equalised.reasons, *found.reasons)
        return replace(found, factors=equalised.factors, reasons=reasons, origin=replace(found.origin, rounds=rounds))

    def _with_factors(self, progress: Progress, factors: Mapping[str, Array]) -> tuple[Engine, Progress]:
        """The engine of the network with these factors per channel moved, and what the samples are there. All that
        there is to say of them has been said.
        """
        module = self.module.clone()
        move_factors(module, factors)
        again = Progress(progress.samples, progress.counting)
        engine = replace(self, module=module, resume=None, statistics=None)
        replace(engine, context=replace(self.context, remark=self.context.log)).collect(
            again, kept_for(module, replace(again, skipped=progress.skipped))
        )
        return engine, replace(again, skipped=progress.skipped)

    def refined(
        self, progress: Progress, calibrator: Calibrator, given: frozenset[str], options: Refinement
    ) -> Refined:
        """Of the network as it is. Values that count things keep their largest magnitude, as those in `given`."""
        counts = frozenset(name for name, one in progress.histograms.items() if one.counts_things)
        methods = [self.thresholds(progress, one, given, counts) for one in (calibrator, *options.others)]
        refiner = Refiner(self.module, self.context, self.pool, progress, options)
        found = methods[0]
        if options.tune_num:
            found = refiner.tune(methods, given | counts)
        elif options.headroom:
            free = {name: entry for name, entry in found.entries.items() if name not in given | counts}
            wide = {**found.entries, **with_headroom(free, self.module, options.headroom)}
            found = found.through(f"for values {options.headroom:g} times as large as the samples'", wide)
        shifts = refiner.shifts(found.entries) if options.bias_num else {}
        if options.tune_num:
            found = with_output_headroom(found, self.module, options.headroom)
        origin = Origin(found.stages, tuple(refiner.rounds))
        reasons = tuple(refiner.reasons)
        return Refined(
            found.entries, refiner.channels, shifts, refiner.tuned, reasons, origin, rounding=refiner.rounding
        )


def _depths(module: Module) -> dict[str, float]:
    """From 0 to 1, by the name of a value: the share of the network's products that are computed up to there. Ops in
    between, or one op that stands for several, make it no deeper.
    """
    seen, places = 0, dict[str, int]()
    for operation in module.main.operations:
        seen += isinstance(operation.op, Product)
        places |= {result.name: seen for result in operation.results}
    return {name: place / max(seen, 1) for name, place in places.items()}
