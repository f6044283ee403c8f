"""Measure accuracy as prediction agreement with the float network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import CalibrationError, Module
from tpuc.api.evaluation import Array, Interpreter, real_values
from tpuc_driver.api.accuracy import AccuracyMeasure, Measured, OpenedMeasure
from tpuc_driver.api.host import inputs_of
from tpuc_quantize.metrics.agreement import TaskMetric
from tpuc_quantize.metrics.output_heads import task_metrics_of
from tpuc_quantize.observers.held_out import spread
from tpuc_quantize.options.budgets import affordable

from tpuc_accuracy.analysis.paired_runs import readable
from tpuc_accuracy.mixed_precision.options import AgreementSamples

Rows = Sequence[Mapping[str, Array]]


@dataclass(frozen=True)
class Decisions(AccuracyMeasure):
    """The share of predictions that agree with the float network, for the output with the lowest share. `count` limits
    the samples of the search; 0 uses the budget of `AgreementSamples`. All held-out samples are run, once for each
    network that is good enough.
    """

    name = "decisions"
    uses_calibration_samples = True
    count: int = 0

    def open(self, measured: Measured) -> OpenedMeasure:
        """See AccuracyMeasure."""
        module = measured.module
        few = AgreementSamples()
        count = self.count or affordable(module, few.operations, few.most, few.fewest)
        apart = set(measured.held_out)
        others = [place for place in range(len(measured.samples)) if place not in apart]
        seen = [others[place] for place in spread(len(others), count)]
        rows = [readable(measured.samples, places) for places in (seen, sorted(apart))]
        exact = Interpreter(module)
        wanted = [[_meant(exact, exact.run(row)) for row in some] for some in rows]
        task_metrics = task_metrics_of(module, wanted[0])
        if not task_metrics:
            raise CalibrationError(f"{module.name} has no outputs, so there are no predictions to compare.")
        return _Opened(module, task_metrics, rows, wanted)


class _Opened(OpenedMeasure):
    name = "share of predictions as in float"
    exact = exact_held_out = 1.0

    def __init__(
        self,
        module: Module,
        task_metrics: Sequence[TaskMetric],
        rows: Sequence[Rows],
        wanted: Sequence[Sequence[Mapping[str, Array]]],
    ) -> None:
        self.samples, self.held_out = len(rows[0]), len(rows[1])
        self._names = Interpreter(module).output_names
        self._task_metrics, self._rows, self._wanted = task_metrics, rows, wanted

    def of(self, tpu: Module, *, held_out: bool = False) -> float:
        """See OpenedMeasure."""
        lowered, inputs = Interpreter(tpu), inputs_of(tpu)
        got: list[Mapping[str, Array]] = []
        for row in self._rows[held_out]:
            fed = {
                one.name: one.store(row[one.name]) if one.store is not None else np.asarray(row[one.name], one.dtype)
                for one in inputs
            }
            found = _meant(lowered, lowered.run(fed))
            got.append(dict(zip(self._names, found.values(), strict=True)))
        return min(one.agreement(self._wanted[held_out], got).share for one in self._task_metrics)


def _meant(interpreter: Interpreter, outputs: Mapping[str, Array]) -> dict[str, Array]:
    return {name: real_values(outputs[name], interpreter.outputs[name]) for name in interpreter.output_names}
