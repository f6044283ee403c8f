"""Runs samples through a TOP module and finds a threshold for every value."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from pathlib import Path

from tpuc.api import CALIBRATION_TABLE, CalibrationError, Calibrator, Module, Pass, PassContext, undone_on_failure
from tpuc_driver.api.host import SampleSet, SampleSource, open_pool, open_samples
from tpuc_prequantized.common import computes_floats, has_scales
from tpuc_prequantized.drop_dynamic_quantization import without_dynamic_quantisation

from tpuc_quantize.calibration.engine import Engine
from tpuc_quantize.calibration.search import Settings
from tpuc_quantize.importing.propagate_calibration import propagated
from tpuc_quantize.observers.bimodal_ranges import find_gaps, sentence
from tpuc_quantize.observers.class_coverage import unshown
from tpuc_quantize.observers.collector import counting_of, inputs_to_count
from tpuc_quantize.observers.held_out import choose_held_out, leave_samples, seen_by_tuning, without
from tpuc_quantize.observers.progress_file import Progress
from tpuc_quantize.observers.sample_checks import lint
from tpuc_quantize.options.budgets import BUDGETS, operations_of
from tpuc_quantize.options.tuning import MARGINS
from tpuc_quantize.tables.table import SEEN, CalibrationTable, fingerprint_lines, make_remarks

DEFAULT = "kld"
COMPARED = "percentile"


@dataclass(frozen=True)
class Calibrate(Pass):
    """One pass over the samples for ranges and histograms, so memory does not grow with their number; then tuning on
    `tune_num` of them (0: none) with `tune_candidates` thresholds per value, by the error of ops and by what reaches
    the network's outputs: of the tables, and those that the methods make, the one is taken that keeps most of what the
    outputs decide, and of equal ones the outputs best (`kld` is compared with `percentile` too), with thresholds per
    channel around functions of one tensor where outputs are better for them, all of a network whose filters are
    equalised first where its outputs are clearly nearer to float for that (`move-factors` does so to what is compiled);
    then the mean errors of products on `bias_num` samples (0: none), which `correct-bias` takes out of them where that
    helps. These samples are spread over the data set.

    Network inputs and few whole numbers keep their largest magnitude whatever the method, unless outputs are clearly
    better for less: where values are few and evenly spread (pixels) a divergence of histograms says nothing. Networks
    that take long are tuned and corrected on fewer samples, by a time reckoned from their operations. With `headroom`
    thresholds are made for values so many times larger than those of the samples, and others are taken only for
    decisions that are lost otherwise; that is 1.6 where the network's scores find next to nothing in the samples, which
    is remarked on (a method without tuning keeps its own thresholds then). Samples come from `dataset` (folders or
    files; `faces=3`: its samples count three times) or `data_list`; `method` is a name in `tpuc.calibrators`. Work is
    spread over `workers` processes (0: threads of this one, one per core unless the network is quick) or the dask
    `cluster`, to the same end. `statistics` is a file to keep what was seen in, which a refused calibration leaves as
    it was, `resume` one to go on from. The samples are looked at first unless `lint` is off; `strict` makes an error of
    what is remarked on otherwise. With `hold_out` tuning does not see some of many samples (`held_out_num` at most half
    of them, 0: one in five), left in the result `check_samples`; their values still count for ranges. Filters of quick
    networks and equalised ones, or of all with `round_weights`, are rounded by what multiplies them where outputs are
    better. Leaves `calibration_table`.
    """

    name = "calibrate"
    dataset: tuple[str, ...] = ()
    data_list: str = ""
    input_num: int = 0
    method: str = "kld"
    histogram_bin_num: int = 2048
    tune_num: int = 10
    tune_candidates: int = 10
    bias_num: int = 16
    headroom: float = 0.0
    workers: int = 0
    cluster: str = ""
    statistics: str = ""
    resume: str = ""
    lint: bool = False
    strict: bool = False
    hold_out: bool = False
    held_out_num: int = 0
    round_weights: bool = False

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises CalibrationError for samples that cannot be read or do not fit, and for integers."""
        if has_scales(module) and not computes_floats(module):
            raise CalibrationError(
                f"{module.name} is already quantized and needs no calibration; compile it without a table"
            )
        module = without_dynamic_quantisation(module, context)
        calibrator: Calibrator = context.registry.get("tpuc.calibrators", self.method)()
        inputs, sets = inputs_to_count(module), tuple(map(SampleSet.of_text, self.dataset))
        samples = open_samples(inputs, sets or None, _path(self.data_list), self.input_num, context.registry)
        workers = self.workers or int(not self.cluster and operations_of(module) <= BUDGETS.threads)
        with undone_on_failure(_path(self.statistics)), open_pool(workers, self.cluster, context.registry) as pool:
            files = _path(self.resume), _path(self.statistics)
            counting = counting_of(module, self.histogram_bin_num, counting=calibrator.needs_histogram)
            engine = Engine(module, context, pool, counting, *files, self.strict)
            tune_num = self.tune_num if calibrator.needs_histogram else 0
            settings = Settings(tune_num, self.tune_candidates, self.bias_num, self.headroom, self.round_weights)
            held_out = self._held_out(samples)
            kept = engine.kept(Progress(samples, counting), settings, held_out, checks=self.hold_out)
            looked = lint(engine.network, samples, pool, context, counting, kept) if self.lint else None
            if looked is not None:
                self._check(looked.findings, context)
            progress = engine.begin(samples)
            if looked is not None and not progress.seen:
                looked.enter(progress, kept)
            engine.collect(progress, kept)
            gaps = find_gaps(progress.histograms)
            if gaps:
                context.remark(sentence(gaps))
            headroom = self.headroom or self._needed_headroom(progress, context, tunes=tune_num > 0)
            settings = replace(settings, headroom=headroom)
            names = frozenset(one.name for one in inputs)
            held_out = self._held_out(progress.samples, progress.skipped)
            found = engine.search(without(progress, held_out), _methods(calibrator, context), names, settings)
        count = len(progress.samples) - len(progress.skipped)
        remarks = make_remarks((self.method,), self.histogram_bin_num, count, found.tuned, context.options.get("epoch"))
        sections = {**found.annotations, SEEN: fingerprint_lines(seen_by_tuning(progress, held_out))}
        table = CalibrationTable(found.best.entries, (*remarks, *found.reasons), sections)
        context.leave(CALIBRATION_TABLE, replace(table, origin=propagated(found.origin, module, table, context)))
        if self.hold_out:
            leave_samples(context, progress, held_out, module)
        return False

    def _held_out(self, samples: SampleSource, skipped: Container[int] = ()) -> tuple[int, ...]:
        return choose_held_out(samples, skipped, self.held_out_num) if self.hold_out else ()

    def _needed_headroom(self, progress: Progress, context: PassContext, *, tunes: bool) -> float:
        """What samples need that show nothing, with a remark; 0 for a method alone, which keeps its thresholds."""
        won = {name: progress.histograms[name].wins for name in progress.counting.scores}
        found = tuple(unshown(progress.counting.scores, won, len(progress.samples) - len(progress.skipped)))
        if not found:
            return 0.0
        words = f"{' and '.join(found)}: they hardly show what the network looks for; add samples that do."
        taken = f" Until then thresholds have headroom for values {MARGINS.rare:g} times as large." if tunes else ""
        self._check((words if self.strict else words + taken,), context)
        return MARGINS.rare if tunes else 0.0

    def _check(self, findings: tuple[str, ...], context: PassContext) -> None:
        if findings and self.strict:
            raise CalibrationError(f"the samples look wrong: {' '.join(findings)} Without --strict this is a remark.")
        for finding in findings:
            context.remark(finding)


def _methods(calibrator: Calibrator, context: PassContext) -> tuple[Calibrator, ...]:
    """The default method is compared with another one; who names a method gets it."""
    others = (context.registry.get("tpuc.calibrators", COMPARED)(),) if calibrator.name == DEFAULT else ()
    return (calibrator, *others)


def _path(text: str) -> Path | None:
    return Path(text) if text else None
