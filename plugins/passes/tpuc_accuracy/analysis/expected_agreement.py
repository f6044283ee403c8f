"""Expected agreement of a classifier over all samples, from the margins of the float network and the noise of int8."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api.evaluation import Array
from tpuc_ops import elementary
from tpuc_quantize.metrics.agreement import Classes, Outputs, TaskMetric


@dataclass(frozen=True)
class MarginOptions:
    """How margins and their noise are measured."""

    floor: float = 1 / 256
    """Added to probabilities before their logarithm: about one step of an 8-bit probability."""
    nearest: float = 0.5
    """Part of the compared samples, those with the smallest margins, on which noise is measured: large logits may be
    clipped, which changes no prediction.
    """
    least: int = 8
    """Fewest compared samples from which noise is estimated."""


OPTIONS = MarginOptions()


def expected_agreement(
    metric: TaskMetric, reference: Sequence[Outputs], got: Sequence[Outputs], others: Sequence[Outputs]
) -> tuple[float, int] | None:
    """The expected share of equal predictions over compared and other samples, and their number: compared ones are
    counted, each other one agrees with the probability that normal noise is smaller than its margin. None where
    predictions are no single classes, or noise cannot be estimated.
    """
    if not isinstance(metric, Classes) or metric.part.places.size != metric.part.shape[metric.axis]:
        return None
    if len(reference) < OPTIONS.least or not others:
        return None
    exact, found, more = ([_logits(metric, one) for one in some] for some in (reference, got, others))
    pairs = sorted((_margin(a, a), _margin(b, a)) for a, b in zip(exact, found, strict=True))
    nearest = np.array(pairs[: math.ceil(len(pairs) * OPTIONS.nearest)])
    noise = float(np.sqrt(np.mean((nearest[:, 0] - nearest[:, 1]) ** 2)))
    expected = sum(_agrees(_margin(row, row), noise) for row in more)
    same = sum(a.argmax() == b.argmax() for a, b in zip(exact, found, strict=True))
    total = len(exact) + len(more)
    return (int(same) + expected) / total, total


def _logits(metric: Classes, outputs: Outputs) -> Array:
    """The logarithms of a sample's probabilities."""
    return elementary.log(metric.prediction(outputs).reshape(-1) + OPTIONS.floor)


def _margin(row: Array, exact: Array) -> float:
    """How far the best class of the float network lies above the best other one."""
    best = int(exact.argmax())
    return float(row[best] - np.delete(row, best).max())


def _agrees(margin: float, noise: float) -> float:
    """The probability that noise does not exceed a margin."""
    return 0.5 * (1.0 + math.erf(margin / (noise * math.sqrt(2.0)))) if noise > 0 else 1.0
