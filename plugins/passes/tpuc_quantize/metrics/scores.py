"""Scores of a calibration table in several metrics, and the comparison of two tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import decibels

from tpuc_quantize.metrics.agreement import Agreement
from tpuc_quantize.options.tuning import COMPARISON

NO_NOISE_DB = 120.0
"""Upper limit of figures; the lower limit is 0, where noise equals signal."""


@dataclass(frozen=True)
class Score:
    """Mean signal-to-noise ratio over the outputs: on all samples, on the first half, and on the first quarter where
    evaluated. Also the signal-to-noise ratio of each output's metric on both halves, and the number of predictions
    that agree with the float network. `runs` is the number of evaluated samples.
    """

    decibels: float
    half: float
    metrics: tuple[tuple[float, float], ...] = ()
    agreement: Agreement = field(default_factory=Agreement)
    samples: int = 0
    quarter: float = math.nan
    runs: int = field(default=0, compare=False)

    def __str__(self) -> str:
        lowest = min((min(one) for one in self.metrics), default=math.inf)
        agrees = f"{self.agreement.same} of {self.agreement.total} predictions agree with float"
        return f"outputs {self.decibels:.2f} dB, {agrees}, lowest output metric {lowest:.2f} dB"

    @property
    def combined(self) -> float:
        """Outputs and their metrics combined, in decibels. Few samples have few confident predictions, so metrics gain
        weight with the number of samples.
        """
        if not self.metrics or math.isinf(self.decibels):
            return self.decibels
        weight = self.samples / (self.samples + COMPARISON.enough)
        mean = sum(_bounded(sum(one) / 2) for one in self.metrics) / len(self.metrics)
        return (self.decibels + weight * mean) / (1.0 + weight)

    def lost_against(self, other: Score) -> float:
        """The largest loss of one figure against `other`, in decibels, present on both halves: of the mean over the
        outputs, or of the metric of one output.
        """
        pairs = [(other.decibels, self.decibels), (other.half, self.half)]
        lost = [min(_bounded(a) - _bounded(b) for a, b in pairs)]
        for theirs, own in zip(other.metrics, self.metrics, strict=True):
            lost.append(min(_bounded(a) - _bounded(b) for a, b in zip(theirs, own, strict=True)))
        return max(*lost, 0.0)

    def agrees_less_than(self, other: Score) -> float:
        """How much lower the share of agreeing predictions is, beyond chance; 0 if it is not."""
        count = min(self.agreement.total, other.agreement.total)
        if not count:
            return 0.0
        lost = [1.0 - one.agreement.share for one in (self, other)]
        chance = COMPARISON.deviations * math.sqrt(sum(lost) * count + 1.0) / count
        return max(lost[0] - lost[1] - chance, 0.0)

    def is_far_above(self, half: float) -> bool:
        """True if the lead in the mean over the outputs, on the first half of the samples, can hardly be made up
        for.
        """
        return math.isfinite(self.half) and half < self.half - COMPARISON.hopeless

    def is_early_far_above(self, quarter: float) -> bool:
        """As `is_far_above`, on the first quarter; False where that was not evaluated."""
        return math.isfinite(self.quarter) and quarter < self.quarter - 2 * COMPARISON.hopeless

    def is_hopeless_against(self, best: Score) -> bool:
        """For a score on the first half or quarter of the samples: True if all figures are lower than those of
        `best`.
        """
        is_far = best.is_far_above(self.half) or best.is_early_far_above(self.quarter)
        pairs = zip(best.metrics, self.metrics, strict=True)
        gains = (sum(map(_bounded, b)) / 2 - _bounded(a) for (a, _), b in pairs)
        return is_far and max(gains, default=0.0) <= 0.0 and self.agreement.share <= best.agreement.share

    def beside(self, best: Score, lost: float) -> Score:
        """For a score on the first half or quarter, `lost` decibels below `best` there: the score that is as much below
        it on all samples, also in metrics, since figures of few samples are not comparable with those of all.
        """
        metrics = list[tuple[float, float]]()
        for (first, second), own in zip(best.metrics, self.metrics, strict=True):
            less = min(sum(map(_bounded, own)) / 2 - _bounded(first), 0.0)
            metrics.append((_bounded(first) + less, _bounded(second) + less))
        return replace(self, decibels=best.decibels - lost, metrics=tuple(metrics))

    def is_clearly_worse_than(self, other: Score) -> bool:
        """True if any figure is clearly lower."""
        return self.lost_against(other) > COMPARISON.clearly or self.agrees_less_than(other) > 0


def best_of(scores: Sequence[Score], handicaps: Sequence[float] = (), tolerance: float = COMPARISON.clearly) -> int:
    """The index of the best score: agreeing predictions first, then the figure that is lowest against the other, beyond
    `tolerance` decibels, then the combined score less a handicap. The first of equal ones.
    """
    known = handicaps or [0.0] * len(scores)

    def rank(place: int) -> tuple[float, float, float, int]:
        one = scores[place]
        fewer = max(one.agrees_less_than(other) for other in scores)
        lost = max(one.lost_against(other) for other in scores)
        return fewer, max(lost - tolerance, 0.0), known[place] - one.combined, place

    return min(range(len(scores)), key=rank)


def halves(energies: Array) -> tuple[float, float]:
    """Signal-to-noise ratio in decibels of both halves of the samples: `energies: [samples, 2]`."""
    middle = len(energies) // 2
    first, second = (decibels(*part.sum(axis=0).tolist()) for part in (energies[:middle], energies[middle:]))
    return first, second


def _bounded(decibels: float) -> float:
    return float(np.clip(decibels, 0.0, NO_NOISE_DB))
