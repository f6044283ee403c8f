"""Scores of a calibration table in several metrics, and the comparison of two tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from tpuc.api.evaluation import Array

from tpuc_quantize.metrics.agreement import Agreement
from tpuc_quantize.options.tuning import COMPARISON

NO_NOISE_DB = 120.0
"""Figures are no better than that, and no worse than 0: there is as much noise then as anything else."""


@dataclass(frozen=True)
class Score:
    """The mean over the outputs of their signal-to-noise ratio: over all samples, over the first half, and over the
    first quarter where that was looked at. The signal-to-noise ratio of each output's metric on both halves; and how
    many predictions agree with those of the float network. `runs` is how many samples ran.
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
        """Of the outputs and their metrics, in decibels. Few samples have few confident predictions, so metrics count
        with the number of samples.
        """
        if not self.metrics or math.isinf(self.decibels):
            return self.decibels
        weight = self.samples / (self.samples + COMPARISON.enough)
        mean = sum(_bounded(sum(one) / 2) for one in self.metrics) / len(self.metrics)
        return (self.decibels + weight * mean) / (1.0 + weight)

    def lost_against(self, other: Score) -> float:
        """By how many decibels one figure is lower than in `other`, on both halves: the mean over the outputs, or the
        metric of one of them; the largest of these.
        """
        pairs = [(other.decibels, self.decibels), (other.half, self.half)]
        lost = [min(_bounded(a) - _bounded(b) for a, b in pairs)]
        for theirs, own in zip(other.metrics, self.metrics, strict=True):
            lost.append(min(_bounded(a) - _bounded(b) for a, b in zip(theirs, own, strict=True)))
        return max(*lost, 0.0)

    def agrees_less_than(self, other: Score) -> float:
        """By how much the share of predictions that agree is lower, beyond what chance makes of it; 0 if it is not."""
        count = min(self.agreement.total, other.agreement.total)
        if not count:
            return 0.0
        lost = [1.0 - one.agreement.share for one in (self, other)]
        chance = COMPARISON.deviations * math.sqrt(sum(lost) * count + 1.0) / count
        return max(lost[0] - lost[1] - chance, 0.0)

    def is_far_above(self, half: float) -> bool:
        """Is so much in the mean over the outputs, on the first half of samples, hardly to be made up for?"""
        return math.isfinite(self.half) and half < self.half - COMPARISON.hopeless

    def is_early_far_above(self, quarter: float) -> bool:
        """As `is_far_above`, on the first quarter; not where that was not looked at."""
        return math.isfinite(self.quarter) and quarter < self.quarter - 2 * COMPARISON.hopeless

    def is_hopeless_against(self, best: Score) -> bool:
        """Of a score on the first half or quarter of samples alone: are all figures lower than those of `best`?"""
        is_far = best.is_far_above(self.half) or best.is_early_far_above(self.quarter)
        pairs = zip(best.metrics, self.metrics, strict=True)
        gains = (sum(map(_bounded, b)) / 2 - _bounded(a) for (a, _), b in pairs)
        return is_far and max(gains, default=0.0) <= 0.0 and self.agreement.share <= best.agreement.share

    def beside(self, best: Score, lost: float) -> Score:
        """Of a score on the first half or quarter of samples alone, `lost` decibels below `best` there: as much below
        it on all of them, also in metrics. Figures of few samples are not compared with those of all.
        """
        metrics = list[tuple[float, float]]()
        for (first, second), own in zip(best.metrics, self.metrics, strict=True):
            less = min(sum(map(_bounded, own)) / 2 - _bounded(first), 0.0)
            metrics.append((_bounded(first) + less, _bounded(second) + less))
        return replace(self, decibels=best.decibels - lost, metrics=tuple(metrics))

    def is_clearly_worse_than(self, other: Score) -> bool:
        """Does any of these figures find it so?"""
        return self.lost_against(other) > COMPARISON.clearly or self.agrees_less_than(other) > 0


def best_of(scores: Sequence[Score], handicaps: Sequence[float] = (), tolerance: float = COMPARISON.clearly) -> int:
    """The place of the best one: predictions that agree count first, then the figure that is lowest beside another
    one's, by more than `tolerance` decibels; then the combined score less a handicap. The first of equal ones.
    """
    known = handicaps or [0.0] * len(scores)

    def rank(place: int) -> tuple[float, float, float, int]:
        one = scores[place]
        fewer = max(one.agrees_less_than(other) for other in scores)
        lost = max(one.lost_against(other) for other in scores)
        return fewer, max(lost - tolerance, 0.0), known[place] - one.combined, place

    return min(range(len(scores)), key=rank)


def halves(energies: Array) -> tuple[float, float]:
    """Signal to noise in decibels of both halves of samples: `energies: [samples, 2]`."""
    middle = len(energies) // 2
    first, second = (_ratio(part.sum(axis=0)) for part in (energies[:middle], energies[middle:]))
    return first, second


def _ratio(sums: Array) -> float:
    signal, noise = sums.tolist()
    if noise == 0 or signal == 0:
        return math.inf if noise == 0 else -math.inf
    return 10 * math.log10(signal / noise) if math.isfinite(noise) else -math.inf


def _bounded(decibels: float) -> float:
    return float(np.clip(decibels, 0.0, NO_NOISE_DB))
