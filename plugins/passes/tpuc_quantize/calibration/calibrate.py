"""Run samples through a TOP module and find a threshold for every value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tpuc.api import CALIBRATION_TABLE, CalibrationError, Calibrator, Module, Pass, PassContext, undone_on_failure
from tpuc_driver.api.host import SampleSet, open_pool, open_samples
from tpuc_lower.lowering.unrolling import with_steps
from tpuc_prequantized.common import computes_floats, has_scales
from tpuc_prequantized.integer_matrices import of_floats

from tpuc_quantize.calibration.engine import Engine
from tpuc_quantize.calibration.search import Settings
from tpuc_quantize.importing.propagate_calibration import propagated
from tpuc_quantize.observers.bimodal_ranges import find_bimodal_ranges, sentence
from tpuc_quantize.observers.class_coverage import classes_without_samples
from tpuc_quantize.observers.collector import counting_of, inputs_to_count
from tpuc_quantize.observers.held_out import choose_held_out, leave_samples, seen_by_tuning, without
from tpuc_quantize.observers.progress_file import Progress
from tpuc_quantize.observers.sample_checks import examine_values, lint
from tpuc_quantize.options.budgets import BUDGETS, operations_of
from tpuc_quantize.options.tuning import MARGINS
from tpuc_quantize.tables.table import SEEN, CalibrationTable, fingerprint_lines, make_remarks

DEFAULT = "kld"
COMPARED = "percentile"


@dataclass(frozen=True)
class Calibrate(Pass):
    """Collect ranges and histograms in one pass over the samples, then search for the best table; leaves
    `calibration_table`.

    Candidate tables come from the estimators, from tuning on `tune_num` samples (0: none) with `tune_candidates`
    thresholds per value, and from the other proposers; the race keeps the one with the best prediction agreement, then
    the best outputs. `kld` is also compared with `percentile`. Thresholds per channel, equalized filters, and rounded
    filters (of quick networks, or of all with `round_weights`) are kept where outputs are clearly better. Last, the
    mean errors of products on `bias_num` samples (0: none) are corrected where that helps. Contents choose these
    samples, in any order of the data set; slow networks use fewer, by a budget in operations.

    Network inputs and small integers keep their largest magnitude, unless outputs are clearly better for less: a
    histogram divergence says nothing about few, evenly spread values such as pixels. `headroom` multiplies all ranges;
    other thresholds are then taken only to recover lost predictions. The default is 1.6, with a remark, where the
    network's scores find next to nothing in the samples (without tuning, the method's thresholds stay).

    Samples come from `dataset` (folders or files; `faces=3` counts its samples three times) or `data_list`, equal ones
    count once; `method` is a name in `tpuc.calibrators`. Work is spread over
    `workers` processes (0: threads of this one) or the dask `cluster`, with the same result. `statistics` is a file
    that keeps the statistics; a refused calibration leaves it unchanged. `resume` is one to continue from. Samples are
    checked first unless `lint` is off; `strict` turns remarks into errors, `force` allows samples without content. With
    `hold_out` tuning does not see some samples (at most `held_out_num` and half of them; 0: one in five); they are left
    in the result `check_samples`, and their values still count for ranges.
    """

    name = "calibrate"
    dataset: tuple[str, ...] = ()
    data_list: str = ""
    input_num: int = 0
    method: str = "kld"
    histogram_bin_num: int = 2048
    tune_num: int = 16
    tune_candidates: int = 10
    bias_num: int = 16
    headroom: float = 0.0
    workers: int = 0
    cluster: str = ""
    statistics: str = ""
    resume: str = ""
    lint: bool = False
    strict: bool = False
    force: bool = False
    hold_out: bool = False
    held_out_num: int = 0
    round_weights: bool = False

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises CalibrationError for samples that cannot be read or do not fit, and for integers."""
        if has_scales(module) and not computes_floats(module):
            raise CalibrationError(
                f"{module.name} is already quantized and needs no calibration; compile it without a table"
            )
        module = with_steps(of_floats(module, context), context.registry)
        calibrator: Calibrator = context.registry.get("tpuc.calibrators", self.method)()
        inputs, sets = inputs_to_count(module), tuple(map(SampleSet.of_text, self.dataset))
        given = open_samples(inputs, sets or None, _path(self.data_list), self.input_num, context.registry)
        workers = self.workers or int(not self.cluster and operations_of(module) <= BUDGETS.threads)
        with undone_on_failure(_path(self.statistics)), open_pool(workers, self.cluster, context.registry) as pool:
            counting = counting_of(module, self.histogram_bin_num, counting=calibrator.needs_histogram)
            engine = Engine(module, context, pool, counting, _path(self.resume), _path(self.statistics), self.strict)
            tune_num = self.tune_num if calibrator.needs_histogram else 0
            settings = Settings(tune_num, self.tune_candidates, self.bias_num, self.headroom, self.round_weights)
            findings = examine_values(given, pool, context, checks=self.lint, force=self.force)
            progress = engine.begin(findings.source)
            kept = engine.kept(progress, settings, self._held_out(progress), checks=self.hold_out)
            looked = lint(engine.network, findings, pool, context, counting, kept) if self.lint else None
            self._check(looked.findings if looked is not None else (), context)
            if looked is not None and not progress.seen:
                looked.enter(progress, kept)
            engine.collect(progress, kept)
            if gaps := find_bimodal_ranges(progress.histograms):
                context.remark(sentence(gaps))
            headroom = self.headroom or self._needed_headroom(progress, context, tunes=tune_num > 0)
            settings, names = replace(settings, headroom=headroom), frozenset(one.name for one in inputs)
            held_out = self._held_out(progress)
            found = engine.search(without(progress, held_out), _methods(calibrator, context), names, settings)
        count = len(progress.samples) - len(progress.skipped)
        remarks = make_remarks((self.method,), self.histogram_bin_num, count, found.tuned, context.options.get("epoch"))
        sections = {**found.annotations, SEEN: fingerprint_lines(seen_by_tuning(progress, held_out))}
        table = CalibrationTable(found.best.entries, (*remarks, *found.reasons), sections)
        context.leave(CALIBRATION_TABLE, replace(table, origin=propagated(found.origin, module, table, context)))
        if self.hold_out:
            leave_samples(context, progress, held_out, module)
        return False

    def _held_out(self, progress: Progress) -> tuple[int, ...]:
        return choose_held_out(progress.keys, progress.skipped, self.held_out_num) if self.hold_out else ()

    def _needed_headroom(self, progress: Progress, context: PassContext, *, tunes: bool) -> float:
        """The headroom for samples that show nothing, with a remark; 0 without tuning, which keeps the method's
        thresholds.
        """
        won = {name: progress.histograms[name].wins for name in progress.counting.scores}
        count = len(progress.samples) - len(progress.skipped)
        found = tuple(classes_without_samples(progress.counting.scores, won, count))
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
    """The default method and the one it is compared with, or the method that the user names."""
    others = (context.registry.get("tpuc.calibrators", COMPARED)(),) if calibrator.name == DEFAULT else ()
    return (calibrator, *others)


def _path(text: str) -> Path | None:
    return Path(text) if text else None
