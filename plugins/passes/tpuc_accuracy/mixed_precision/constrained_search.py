"""Search for the cheapest network that meets an accuracy constraint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tpuc.api import (
    CALIBRATION_TABLE,
    COMPILE,
    FLOAT_MODES,
    QUANTIZE_TABLE,
    CalibrationError,
    Module,
    PassContext,
    UsageError,
)
from tpuc_driver.api.accuracy import AccuracyMeasure, Measured, OpenedMeasure
from tpuc_driver.api.command import build_object, parse_pass_text
from tpuc_driver.api.host import (
    ACCURACY,
    CHECK_SAMPLES,
    AccuracyReport,
    SampleSet,
    SampleSource,
    distinct,
    fingerprints,
    inputs_of,
    open_pool,
    open_samples,
    samples_needed,
)
from tpuc_lower.target.kernels import chip_of
from tpuc_lower.target.results import LATENCY
from tpuc_prequantized.common import has_scales
from tpuc_quantize.calibration.calibrate import Calibrate
from tpuc_quantize.observers.held_out import choose_held_out

from tpuc_accuracy.mixed_precision.accuracy_constraint import AccuracyConstraint, Evaluated, Form
from tpuc_accuracy.mixed_precision.evaluations import Evaluations
from tpuc_accuracy.mixed_precision.options import ConstraintBudget
from tpuc_accuracy.mixed_precision.preparations import GIVEN, NONE, Preparations
from tpuc_accuracy.mixed_precision.search_quantize_table import sensitivity_job

MEASURES = "tpuc.measures"
NAME = "meet-accuracy"


@dataclass(frozen=True)
class Target:
    """The constraint: see the pass `meet-accuracy`. `calibration` makes the usual table."""

    calibration: Calibrate
    min_accuracy: str
    max_trials: int
    measure: str
    point_estimate: bool


@dataclass
class ConstrainedSearch:
    """The search for one network."""

    target: Target
    module: Module
    context: PassContext
    preparations: Preparations = field(init=False)
    samples: SampleSource = field(init=False)
    _chosen: AccuracyMeasure = field(init=False)
    _required: float = field(init=False)

    def __post_init__(self) -> None:
        self._required = _number(self.target.min_accuracy)
        parsed = parse_pass_text(self.target.measure)
        self._chosen = build_object("measure", self.context.registry.get(MEASURES, parsed.name), parsed)
        calibration = self.target.calibration
        sets = tuple(map(SampleSet.of_text, calibration.dataset)) or None
        path = Path(calibration.data_list) if calibration.data_list else None
        given = open_samples(inputs_of(self.module), sets, path, calibration.input_num, self.context.registry)
        self.samples = distinct(given).source
        if self._chosen.uses_calibration_samples and not self.target.point_estimate:
            calibration = replace(calibration, held_out_num=2 * (samples_needed(self._share) or 0))
        self.preparations = Preparations(self.module, self.context, calibration)

    def run(self) -> bool:
        """Store the result; returns True if the module has changed. Raises CalibrationError without a result."""
        is_shared = self._chosen.uses_calibration_samples
        if is_shared and not self.target.point_estimate:  # before a long calibration
            self._check_samples(len(self._held_out()))
        usual, held_out = self._usual()
        measure = self._measure(held_out)
        least, held_out_least = (self._least(exact) for exact in (measure.exact, measure.exact_held_out))
        if measure.exact < least:
            raise CalibrationError(
                f"{self.module.name}: --min-accuracy {self.target.min_accuracy} is above the accuracy of the float "
                f"network ({measure.name} {measure.exact:.4f}). Lower it."
            )
        if not is_shared and self._is_relative and not self.target.point_estimate:
            self._check_samples(measure.held_out)
        target = self.target
        constraint = AccuracyConstraint(
            self._compiled, measure, least, held_out_least, target.max_trials, self._is_relative, target.point_estimate
        )
        plain = constraint.attempt(usual)
        if plain is None:
            self.context.result(COMPILE)(usual.module, usual.table, usual.modes)  # raises what is wrong
            raise UsageError(f"--max-trials {self.target.max_trials} allows no trial; give at least 1.")
        chosen = constraint.confirmed()
        for search in (self._prepare, self._keep_floats):
            if chosen is None and self._is_integer:
                search(constraint, usual)
                chosen = constraint.confirmed()
        if chosen is None:
            raise CalibrationError(self._refusal(constraint, plain))
        changed = chosen.form.module is not self.module
        if changed:
            self.preparations.rewritten(chosen.form.preparation, self.module, self.context)
        self._leave(constraint, plain, chosen)
        if held_out is not None:
            self.context.leave(CHECK_SAMPLES, held_out)
        return changed

    def _least(self, exact: float) -> float:
        """The required accuracy, given the float network's."""
        return self._required * exact / 100 if self._is_relative else self._required

    @property
    def _is_relative(self) -> bool:
        """True if the constraint is relative to the float network's accuracy."""
        return self.target.min_accuracy.strip().endswith("%")

    @property
    def _share(self) -> float:
        """The constraint as a share of the float network's accuracy."""
        return self._required / 100 if self._is_relative else self._required

    def _check_samples(self, held_out: int) -> None:
        """Raise CalibrationError where the number of held-out samples cannot confirm the constraint."""
        needed, requirement = samples_needed(self._share), f"--min-accuracy {self.target.min_accuracy}"
        if self._share > 1:
            return  # more than the float network has: another sentence
        if needed is None:
            raise CalibrationError(
                f"{self.module.name}: no number of samples shows {requirement}; ask for less, or add "
                "--accept-point-estimate to go by the figure on the samples alone."
            )
        if held_out < needed:
            raise CalibrationError(
                f"{self.module.name}: {requirement} needs at least {needed} held-out samples; {held_out} of "
                f"{len(self.samples)} were held out. Give {2 * needed} samples, ask for less, or add "
                "--accept-point-estimate to go by the figure on these."
            )

    @property
    def _is_integer(self) -> bool:
        """True if tables and float layers can change anything."""
        return str(self.context.options.get("quantize")) not in FLOAT_MODES and not has_scales(self.module)

    def _usual(self) -> tuple[Form, SampleSource | None]:
        table = self.context.find(CALIBRATION_TABLE)
        if table is not None or not self._is_integer:
            return Form(GIVEN if table is not None else NONE, self.module, table), None
        return self.preparations.usual()

    def _held_out(self) -> Sequence[int]:
        """The samples for the final check, each once."""
        places = choose_held_out(fingerprints(self.samples), wanted=self.preparations.calibration.held_out_num)
        return list({self.samples.samples[place]: place for place in places}.values())

    def _measure(self, held_out: SampleSource | None) -> OpenedMeasure:
        places = self._held_out()
        if held_out is not None:
            found = {sample: place for place, sample in enumerate(self.samples.samples)}
            places = [found[sample] for sample in held_out.samples]
        paths = [SampleSet.of_text(text).path for text in self.target.calibration.dataset]
        context = self.context
        return self._chosen.open(Measured(self.module, self.samples, places, paths, context.registry, context.remark))

    def _compiled(self, form: Form) -> tuple[Module, int]:
        return self.context.result(COMPILE)(form.module, form.table, form.modes)

    def _prepare(self, constraint: AccuracyConstraint, usual: Form) -> None:
        """Try other preparations."""
        if usual.preparation != GIVEN:
            constraint.first_met(self.preparations.others())

    def _keep_floats(self, constraint: AccuracyConstraint, usual: Form) -> None:
        """Keep layers of the best preparation in float."""
        del usual
        base = constraint.best().form
        modes = [mode for mode in chip_of(self.context, NAME).description.modes if mode in FLOAT_MODES]
        with open_pool(registry=self.context.registry) as pool:
            evaluations = self._evaluations(base, pool)
            everything = evaluations.graph.completed(evaluations.graph.layers)
            uniform = [replace(base, modes=dict.fromkeys(everything, mode)) for mode in modes]
            found = constraint.first_met(iter(sorted(uniform, key=lambda form: self._compiled(form)[1])))
            if found is None:
                return
            mode = found.form.modes[everything[0]]
            clock = chip_of(self.context, NAME).description.clock_hz / 1000

            def milliseconds(floats: Sequence[str]) -> float | None:
                return self._compiled(replace(base, modes=dict.fromkeys(floats, mode)))[1] / clock

            evaluations.context.leave(LATENCY, milliseconds)
            points = sorted(evaluations.points(), key=lambda point: (point.cost, point.loss))
        cheaper = [one for one in points if one.cost < found.cycles / clock and one.floats]
        improving = [
            one for place, one in enumerate(cheaper) if all(one.loss < other.loss for other in cheaper[:place])
        ]
        constraint.cheapest([replace(base, modes=dict.fromkeys(one.floats, mode)) for one in improving])

    def _evaluations(self, base: Form, pool: Any) -> Evaluations:
        context = replace(self.context, results={CALIBRATION_TABLE: base.table})
        few = replace(self.samples, samples=self.samples.samples[-ConstraintBudget().noise_samples :])
        job = sensitivity_job(base.module, context, few)
        return Evaluations(job, context, pool, len(self.module.main.operations))

    def _leave(self, constraint: AccuracyConstraint, plain: Evaluated, chosen: Evaluated) -> None:
        self.context.leave(QUANTIZE_TABLE, chosen.form.modes)
        if chosen.form.table is not None:
            self.context.leave(CALIBRATION_TABLE, chosen.form.table)
        self.context.leave(ACCURACY, _report(constraint, plain, chosen))

    def _refusal(self, constraint: AccuracyConstraint, plain: Evaluated) -> str:
        found = _report(constraint, plain, constraint.best())
        return (
            f"{self.module.name}: no network reaches --min-accuracy {self.target.min_accuracy}; best: {found.text()}. "
            f"Lower it, raise --max-trials {self.target.max_trials}, or give more representative samples"
        )


def _number(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(
            f"--min-accuracy {text} is not a number; give a figure such as 0.99, or 99% for a share of the float "
            "network's."
        )
    return value


def _report(constraint: AccuracyConstraint, plain: Evaluated, chosen: Evaluated) -> AccuracyReport:
    measure, modes = constraint.measure, chosen.form.modes
    return AccuracyReport(
        measure.name,
        constraint.least,
        measure.exact,
        chosen.accuracy,
        measure.samples,
        chosen.held_out,
        measure.held_out,
        plain.accuracy,
        plain.cycles,
        chosen.cycles,
        chosen.form.preparation,
        tuple(modes),
        next(iter(modes.values()), ""),
        len(constraint.tried),
        chosen.interval,
    )
