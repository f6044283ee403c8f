"""A calibration from samples to table: ranges, histograms, thresholds, tuning; each spread over a pool of workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tpuc.api import CalibrationError, Calibrator, Module, PassContext
from tpuc.api.host import Pool, PortableModule, SampleSource, small_units_of

from tpuc_passes.calibration.collect import CountJob, RangeJob, UnitResult, absmax, grown, merge_counts, merge_ranges
from tpuc_passes.calibration.methods import Max, usable_threshold
from tpuc_passes.calibration.progress_file import Progress, fingerprint, load, save
from tpuc_passes.calibration.refine import Refined, Refinement, Refiner
from tpuc_passes.calibration.statistics import Histogram, TensorRange
from tpuc_passes.calibration.table import TensorThreshold

SAVE_EVERY = 8
"""Units between two writings of the statistics file."""


@dataclass(frozen=True)
class Engine:
    """What a calibration needs besides the samples. `statistics` is the file to save to, `resume` the one to go on
    from. With `strict` a sample that cannot be read ends it.
    """

    module: Module
    context: PassContext
    pool: Pool
    bins: int
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
            return Progress(samples, self.bins)
        progress = load(self.resume, self._fingerprint, samples.inputs, self.bins)
        progress.extend(samples)
        new = len(progress.samples) - progress.ranged
        self.context.log(f"{self.resume}: goes on with {progress.ranged} samples, {new} more to see")
        return progress

    def collect(self, progress: Progress, *, histograms: bool) -> None:
        """Bring ranges, and counts if wanted, up to the last sample."""
        before = dict(progress.ranges)
        self._ranges(progress)
        if not histograms:
            return
        stale: Sequence[str] = grown(before, progress.ranges) if progress.counted else ()
        for name in stale:
            progress.counts.pop(name, None)
        if stale:
            self.context.log(f"{len(stale)} values outgrew their histograms and are counted again")
            again = {name: progress.ranges[name] for name in stale}
            self._count(progress, again, range(progress.counted))
        self._count(progress, progress.ranges, range(progress.counted, len(progress.samples)), forward=True)

    def _ranges(self, progress: Progress) -> None:
        job = RangeJob(self.network, progress.samples)
        first = progress.ranged

        def take(unit: range, result: UnitResult) -> None:
            for index, reason in result.unreadable:
                if self.strict:
                    raise CalibrationError(reason)
                progress.skipped[index] = reason
            merge_ranges(progress.ranges, result.ranges)
            progress.ranged = unit.stop

        # Counts so far belong to the old ranges: nothing is saved until they agree again.
        self._walk(job, range(first, len(progress.samples)), "ranges", take, progress if not progress.counted else None)
        for index, reason in progress.skipped.items():
            if index >= first:
                remark(self.context, f"left out: {reason}")
        if len(progress.skipped) == len(progress.samples):
            raise CalibrationError(f"none of the {len(progress.samples)} samples can be read. Replace the data set.")
        if progress.skipped:
            remark(self.context, f"{len(progress.skipped)} of {len(progress.samples)} samples left out")

    def _count(
        self, progress: Progress, ranges: Mapping[str, tuple[float, float]], samples: range, *, forward: bool = False
    ) -> None:
        job = CountJob(self.network, progress.samples, dict(ranges), self.bins, frozenset(progress.skipped))

        def take(unit: range, result: UnitResult) -> None:
            merge_counts(progress.counts, result.counts)
            if forward:
                progress.counted = unit.stop

        self._walk(job, samples, "histograms", take, progress if forward else None)

    def _walk(
        self,
        job: RangeJob | CountJob,
        samples: range,
        what: str,
        take: Callable[[range, UnitResult], None],
        saved: Progress | None,
    ) -> None:
        units = tuple(samples[unit.start : unit.stop] for unit in small_units_of(len(samples)))
        results = self.context.progress(self.pool.map(job, units), f"calibrating: {what}", len(units))
        for number, (unit, result) in enumerate(zip(units, results, strict=True), 1):
            take(unit, result)
            if self.statistics is not None and saved is not None and number % SAVE_EVERY == 0:
                save(self.statistics, saved, self._fingerprint)
        if self.statistics is not None and saved is not None:
            save(self.statistics, saved, self._fingerprint)

    def thresholds(
        self, progress: Progress, calibrator: Calibrator, given: frozenset[str]
    ) -> dict[str, TensorThreshold]:
        """What the method says of every value; those in `given` keep their largest magnitude."""
        entries: dict[str, TensorThreshold] = {}
        depth = max(len(progress.ranges) - 1, 1)
        for place, (name, limits) in enumerate(progress.ranges.items()):
            histogram = Histogram(TensorRange.of(name, *limits), self.bins, depth=place / depth)
            if name in progress.counts:
                histogram.add(progress.counts[name])
            method = Max() if name in given or absmax(limits) == 0 else calibrator
            entries[name] = TensorThreshold(usable_threshold(method, histogram), histogram.minimum, histogram.maximum)
        return entries

    def refine(self, progress: Progress, calibrator: Calibrator, given: frozenset[str], options: Refinement) -> Refined:
        """What keeps the answers best."""
        entries = self.thresholds(progress, calibrator, given)
        refiner = Refiner(self.module, self.context, self.pool, progress, options)
        if options.tune_num and calibrator.needs_histogram:
            others = [self.thresholds(progress, other, given) for other in options.others]
            entries = refiner.tune(entries, others, given)
        shifts = refiner.shifts(entries) if options.bias_num else {}
        return Refined(entries, refiner.channels, shifts, refiner.tuned)


def remark(context: PassContext, text: str) -> None:
    """A warning: for stderr, and for whoever asked the session."""
    context.results.setdefault("remarks", []).append(text)
    context.remark(text)
