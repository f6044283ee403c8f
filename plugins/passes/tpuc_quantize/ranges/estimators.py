"""Range estimators: one class per method, from the statistics of one tensor to its threshold."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from tpuc.api import Calibrator, TensorStatistics
from tpuc_ops import elementary
from tpuc_ops.quant.arithmetic import usable_threshold

SMALLEST_PROBABILITY = 1e-30

Floats = NDArray[np.float64]


def limited_threshold(threshold: float, statistics: TensorStatistics) -> float:
    """A method's threshold, at most `absmax`; a positive one for all-zero tensors."""
    return usable_threshold(min(threshold, statistics.absmax))


def _centers(statistics: TensorStatistics) -> Floats:
    """The center of every bin."""
    bins = statistics.counts.size
    return np.arange(0.5, bins, dtype=np.float64) * (statistics.absmax / bins)


def _divergence(reference: Floats, expanded: Floats) -> float:
    """Kullback-Leibler divergence of two histograms; empty bins of the second get a tiny probability."""
    if not expanded.any():
        return math.inf
    seen = reference > 0
    p, q = reference[seen] / reference.sum(), expanded[seen] / expanded.sum()
    return float(np.sum(p * elementary.log(p / np.maximum(q, SMALLEST_PROBABILITY))))


@dataclass(frozen=True)
class Max(Calibrator):
    """No clipping."""

    name = "max"
    needs_histogram: ClassVar[bool] = False

    def threshold(self, statistics: TensorStatistics) -> float:
        return statistics.absmax


class HistogramMethod(Calibrator):
    """A method based on histogram counts; for empty histograms it keeps the largest magnitude."""

    def threshold(self, statistics: TensorStatistics) -> float:
        return self.best(statistics) if statistics.counts.any() else statistics.absmax

    @abstractmethod
    def best(self, statistics: TensorStatistics) -> float:
        """The threshold for a histogram that is not empty."""


@dataclass(frozen=True)
class Kld(HistogramMethod):
    """Smallest Kullback-Leibler divergence between the clipped distribution and its expansion from `levels` levels.

    Candidates are every `levels` bins up to and including the last one; the lowest of equal ones wins.
    """

    name = "kld"
    levels: int = 128

    def best(self, statistics: TensorStatistics) -> float:
        bins = statistics.counts.size
        counts = np.pad(statistics.counts.astype(np.float64), (0, -bins % self.levels))
        candidates = range(self.levels, counts.size + 1, self.levels)
        divergences = [self._divergence(counts, kept) for kept in candidates]
        best = candidates[int(np.argmin(divergences))]
        return min((best + 0.5) * statistics.absmax / bins, statistics.absmax)

    def _divergence(self, counts: Floats, kept: int) -> float:
        """Divergence between the first `kept` bins, with the tail added to the last, and the same bins averaged
        per level.
        """
        inside = counts[:kept]
        reference = inside.copy()
        reference[-1] += counts[kept:].sum()
        cells = inside.reshape(self.levels, -1)
        filled = cells > 0
        means = cells.sum(1) / np.maximum(filled.sum(1), 1)
        expanded = np.where(filled, means[:, None], 0.0).reshape(-1)
        return _divergence(reference, expanded)


@dataclass(frozen=True)
class Percentile(HistogramMethod):
    """The end of the bin below which a share of the nonzero absolute values lies: `percent` at the inputs, rising to
    `last_percent` at the end of the network, where the outputs depend on outliers.
    """

    name = "percentile"
    percent: float = 99.99
    last_percent: float = 99.999999

    def best(self, statistics: TensorStatistics) -> float:
        below = np.cumsum(statistics.counts)
        first, end = 1 - self.percent / 100, 1 - self.last_percent / 100
        # Evenly on a logarithmic scale.
        cut = first * float(elementary.power(np.float64(end / first), statistics.depth)) if first > end > 0 else first
        last = int(np.searchsorted(below, (1 - cut) * int(below[-1])))
        return (last + 1) * statistics.absmax / below.size


@dataclass(frozen=True)
class Mse(HistogramMethod):
    """Smallest mean squared error of clipping plus rounding (OCTAV: a fixed point found by Newton's method)."""

    name = "mse"
    bits: int = 8
    steps: int = 20
    tolerance: float = 1e-6

    def best(self, statistics: TensorStatistics) -> float:
        counts, centers = statistics.counts, _centers(statistics)
        # Sums over the bins from i upwards; one more entry for "none".
        above = np.append(np.cumsum(counts[::-1])[::-1], 0)
        mass_above = np.append(np.cumsum((counts * centers)[::-1])[::-1], 0.0)
        noise = 4.0**-self.bits / 3 * (0.25 if statistics.minimum >= 0 else 1.0)  # unsigned: half the step
        best = float(mass_above[0] / above[0])
        for _ in range(self.steps):
            first = int(np.searchsorted(centers, best, side="right"))
            following = float(mass_above[first] / (noise * (above[0] - above[first]) + above[first]))
            if abs(following - best) < self.tolerance:
                return following
            best = following
        return best


@dataclass(frozen=True)
class AciqGauss(HistogramMethod):
    """Optimal clipping of 8-bit values under a normal distribution (ACIQ), by the root mean square."""

    name = "aciq-gauss"
    factor: float = 3.92403337

    def best(self, statistics: TensorStatistics) -> float:
        return self.factor * math.sqrt(np.average(_centers(statistics) ** 2, weights=statistics.counts))


@dataclass(frozen=True)
class AciqLaplace(HistogramMethod):
    """Optimal clipping of 8-bit values under a Laplace distribution (ACIQ), by the mean absolute value."""

    name = "aciq-laplace"
    factor: float = 9.89675982

    def best(self, statistics: TensorStatistics) -> float:
        return self.factor * float(np.average(_centers(statistics), weights=statistics.counts))


@dataclass(frozen=True)
class Entropy(HistogramMethod):
    """The divergence of `kld` with finer candidates, every `stride` bins (the entropy calibration of TensorRT)."""

    name = "entropy"
    levels: int = 128
    stride: int = 16

    def best(self, statistics: TensorStatistics) -> float:
        bins = statistics.counts.size
        candidates = np.arange(bins, 0, -self.stride)[::-1]
        candidates = candidates[candidates >= min(self.levels, bins)]
        divergences = [self._divergence(statistics.counts, int(kept)) for kept in candidates]
        return float(candidates[int(np.argmin(divergences))]) * statistics.absmax / bins

    def _divergence(self, counts: NDArray[np.int64], kept: int) -> float:
        """As for `kld`, but levels may differ by one in width, and the last bin counts as filled if the tail is
        not empty.
        """
        reference = counts[:kept].astype(np.float64)
        reference[-1] += counts[kept:].sum()
        level = np.arange(kept) * self.levels // kept
        filled = reference > 0
        means = np.bincount(level, weights=counts[:kept]) / np.maximum(np.bincount(level, weights=filled), 1)
        return _divergence(reference, np.where(filled, means[level], 0.0))


@dataclass(frozen=True)
class Cosine(HistogramMethod):
    """Highest cosine similarity between the values and their quantized form; candidates every `stride` bins."""

    name = "cosine"
    levels: int = 128
    stride: int = 16

    def best(self, statistics: TensorStatistics) -> float:
        counts, centers = statistics.counts, _centers(statistics)
        bins = counts.size
        candidates = np.arange(bins, 0, -self.stride)[::-1] * (statistics.absmax / bins)
        steps = candidates[:, None] / self.levels
        quantized = np.minimum(np.rint(centers / steps), self.levels - 1)  # the scale of a row does not matter
        weighted = quantized * counts
        norms = np.sqrt((weighted * quantized).sum(1) * float((counts * centers**2).sum()))
        cosines = (weighted * centers).sum(1) / np.maximum(norms, SMALLEST_PROBABILITY)
        return float(candidates[int(np.argmax(cosines))])
