"""Count the predictions on which a quantized network agrees with the float network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tpuc.api import CALIBRATION_TABLE, QUANTIZED, Module, Pass, PassContext, StringAttr, UsageError
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import CHECK_SAMPLES, SELF_CHECK, OutputCheck, SelfCheck, decibels
from tpuc_quantize.metrics.agreement import Agreement, Classes, Numbers, Presence, TaskMetric
from tpuc_quantize.metrics.output_heads import task_metrics_of
from tpuc_quantize.observers.held_out import MOST, HeldOut, spread
from tpuc_quantize.options.budgets import BUDGETS, affordable
from tpuc_quantize.options.tuning import AGREEMENT

from tpuc_accuracy.analysis.expected_agreement import expected_agreement
from tpuc_accuracy.analysis.paired_runs import Outputs, calibrated_pairs, compiled_pairs


@dataclass(frozen=True)
class CheckDecisions(Pass):
    """Runs the float module (TOP) on the samples in the result `check_samples` (on a few of them where calibration has
    seen them), beside the module in the result `quantized` that it was lowered to, or beside the simulated result of
    the table in the result `calibration_table`. Leaves a `SelfCheck` in the result `self_check`, unless there is
    nothing to compare. Numbers count as predictions only in networks without other ones.

    `tuned`: whether calibration has seen the samples (`none`: unknown).
    """

    name = "check-decisions"
    tuned: bool | None = None

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; the module does not change."""
        samples = context.find(CHECK_SAMPLES)
        if samples is None:
            raise UsageError("pass 'check-decisions' needs samples: use `tpuc calibrate` or `tpuc compile --dataset`")
        places = spread(
            len(samples), MOST if self.tuned is False else affordable(module, BUDGETS.observation, BUDGETS.most_checked)
        )
        samples = replace(samples, samples=tuple(samples.samples[place] for place in places))
        tpu = context.find(QUANTIZED)
        pairs = compiled_pairs(module, tpu, samples) if tpu is not None else None
        if pairs is None and context.find(CALIBRATION_TABLE) is not None:
            pairs = calibrated_pairs(module, samples, context)
        if pairs is None:
            return False
        task_metrics = task_metrics_of(module, pairs[0])
        if task_metrics:
            are_all = all(isinstance(one, Numbers) for one in task_metrics)
            others = samples.others if isinstance(samples, HeldOut) and self.tuned is False else ()
            checks = tuple(
                _checked(one, *pairs, others, counts=are_all or not isinstance(one, Numbers)) for one in task_metrics
            )
            shows = _shows_something(task_metrics, pairs[0])
            context.leave(SELF_CHECK, SelfCheck(_subject(context, tpu), len(pairs[0]), checks, self.tuned, shows))
        return False


def _subject(context: PassContext, tpu: Module | None) -> str:
    mode = tpu.attributes.get("module.mode") if tpu is not None else None
    chip = "" if context.chip is None else f"{context.chip.description.name} "
    return chip + (mode.value.lower() if isinstance(mode, StringAttr) else "int8")


def _shows_something(task_metrics: Sequence[TaskMetric], reference: Sequence[Outputs]) -> bool:
    """True unless every detection output is below its threshold everywhere."""
    looking = [
        one
        for one in task_metrics
        if isinstance(one, Presence) or (isinstance(one, Classes) and one.background is not None)
    ]
    return not looking or any(
        (one.confidence(outputs) >= AGREEMENT.sure).any() for one in looking for outputs in reference
    )


def _checked(
    metric: TaskMetric,
    reference: Sequence[Outputs],
    got: Sequence[Outputs],
    others: Sequence[Outputs],
    *,
    counts: bool,
) -> OutputCheck:
    agreement = metric.agreement(reference, got) if counts else Agreement()
    energies = [_energies(metric.part.of(a), metric.part.of(b)) for a, b in zip(reference, got, strict=True)]
    signal, noise = (sum(column) for column in zip(*energies, strict=True))
    expected = expected_agreement(metric, reference, got, others) if counts else None
    return OutputCheck(metric.name, agreement.same, agreement.total, decibels(signal, noise), expected)


def _energies(reference: Array, got: Array) -> tuple[float, float]:
    a, b = reference.astype(np.float64), got.astype(np.float64)
    if not np.isfinite(b).all():
        return float((a * a).sum()), math.inf
    return float((a * a).sum()), float(((a - b) ** 2).sum())
