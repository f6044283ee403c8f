"""Tune thresholds by output error: rounding and clipping errors weighted by output sensitivity."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tpuc.api.evaluation import Array
from tpuc_ops import elementary
from tpuc_ops.factorization import matmul

from tpuc_quantize.metrics.gradients import Gradients
from tpuc_quantize.metrics.taps import Measure
from tpuc_quantize.options.tuning import GRID
from tpuc_quantize.remedies.channel_thresholds import UNSEEN, bin_costs, first_bin
from tpuc_quantize.simulation.grids import symmetric_grid
from tpuc_quantize.simulation.network import FakeNetwork, State
from tpuc_quantize.tables.table import TensorThreshold

STEPS_PER_OCTAVE = 64
BINS = 16 * STEPS_PER_OCTAVE
"""Number of logarithmic magnitude bins: 16 octaves below the largest value, twice the range of 8-bit integers, so that
ranges spanned by a few huge values are still resolved where all others lie.
"""
_MAGNITUDE = 0x7FFFFFFF
_SHIFT = 17  # leaves 6 bits of a float32's mantissa
BLOCK_ELEMENTS = 1 << 14

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Importance:
    """Squared gradients, and gradients times the sign of their value, summed per sample and magnitude bin.

    `channels`: the `bin_costs` of all samples, for values that may get thresholds per channel.
    """

    squares: tuple[NDArray[np.float32], ...] = ()
    sums: tuple[NDArray[np.float32], ...] = ()
    channels: NDArray[np.float32] | None = None

    def __add__(self, other: Importance) -> Importance:
        parts = [one for one in (self.channels, other.channels) if one is not None]
        channels = np.add(*parts) if len(parts) == 2 else parts[0] if parts else None
        return Importance(self.squares + other.squares, self.sums + other.sums, channels)


class Weigher:
    """Computes the importance of values in `limits`, with bins up to that limit, and for those in `wide` also per
    channel. `powers` are the mean squares that `Gradients` needs, by name.
    """

    def __init__(
        self,
        net: FakeNetwork,
        measure: Measure,
        limits: Mapping[str, float],
        powers: Mapping[str, float],
        wide: Collection[str] = (),
    ) -> None:
        names = net.plan.names.items()
        self._limits = limits
        self._wide = wide
        self._gradients = Gradients(net, measure)
        self._names = {slot: name for slot, name in names if name in limits}
        self._powers = {slot: powers[name] for slot, name in names if name in powers}

    def weigh(self, parts: Iterator[tuple[int, State]], seed: int) -> dict[str, Importance]:
        """`parts` of a float run as for `Gradients.weights`; `seed` selects the random signs of the output sums."""
        found: dict[str, Importance] = {}
        for slot, value, gradient in self._gradients.weights(parts, np.random.default_rng(seed), self._powers):
            if (name := self._names.get(slot)) is not None:
                limit = self._limits[name]
                channels = bin_costs(value, gradient, limit) if name in self._wide else None
                found[name] = _importance(value, gradient, limit, channels)
        return {name: found[name] for name in self._names.values() if name in found}


def _importance(value: Array, gradient: Array, limit: float, channels: Array | None) -> Importance:
    value, gradient = (np.ascontiguousarray(one, np.float32).reshape(-1) for one in (value, gradient))
    squares, sums = np.zeros(BINS), np.zeros(BINS)
    first = first_bin(limit, _SHIFT, BINS)
    for start in range(0, value.size, BLOCK_ELEMENTS):  # what a block needs stays in the cache
        x, slope = (one[start : start + BLOCK_ELEMENTS] for one in (value, gradient))
        bits = x.view(np.int32)
        places = (bits & _MAGNITUDE) >> _SHIFT
        places -= first
        wide = np.clip(places, 0, BINS - 1).astype(np.intp)  # once for both
        signed = (slope.view(np.int32) ^ (bits & ~_MAGNITUDE)).view(np.float32)  # a product of signs takes far longer
        with np.errstate(over="ignore"):  # what a mask of lowest numbers multiplies has slopes as large
            squares += np.bincount(wide, weights=slope * slope, minlength=BINS)
        sums += np.bincount(wide, weights=signed, minlength=BINS)
    squares = np.minimum(squares, np.finfo(np.float32).max)
    return Importance((squares.astype(np.float32),), (sums.astype(np.float32),), channels)


def centers_of(limit: float) -> Floats:
    """The center of every bin; the first one also holds all smaller magnitudes."""
    places = np.arange(BINS + 1, dtype=np.int32) + first_bin(limit, _SHIFT, BINS)
    edges = (np.maximum(places, 0) << _SHIFT).view(np.float32)
    centers = (edges[:-1].astype(np.float64) + edges[1:]) / 2
    return np.minimum(centers, limit)


def merged(samples: Iterable[Mapping[str, Importance]]) -> dict[str, Importance]:
    """The importances of all samples, concatenated in order."""
    every: dict[str, Importance] = {}
    for sample in samples:
        for name, one in sample.items():
            every[name] = every.get(name, Importance()) + one
    return every


def costs(
    importance: Importance,
    limit: float,
    thresholds: Sequence[float],
    *,
    signed: bool,
    headroom: float = UNSEEN,
) -> Floats:
    """Expected squared error of the outputs per threshold. Half of the clipping error assumes values `headroom` times
    larger.

    Rounding errors are nearly independent, so their squares add up. Clipping errors have the sign of their value and
    may add up linearly in the outputs. The larger of the two counts.
    """
    squares = np.mean(importance.squares, axis=0, dtype=np.float64)
    sums = np.asarray(importance.sums, np.float64)
    centers = centers_of(limit)
    grids = [symmetric_grid(threshold, signed=signed) for threshold in thresholds]
    scales = np.array([[grid.scale] for grid in grids])
    ends = np.array([[grid.limits[1]] for grid in grids])
    result = (np.where(centers < scales / 2, centers**2, scales**2 / 12) * squares).sum(axis=1)
    for reach in (1.0, headroom):
        beyond = np.maximum(centers * reach - ends, 0.0)
        together = (matmul(beyond, sums.T) ** 2).mean(axis=1)
        result += np.maximum((beyond**2 * squares).sum(axis=1), together) / 2
    return result


def choose_by_outputs(
    entries: Mapping[str, TensorThreshold],
    importance: Mapping[str, Importance],
    headroom: float = UNSEEN,
    *,
    aggressive: bool = False,
) -> dict[str, TensorThreshold]:
    """The entries with the threshold that costs the outputs least, slightly above or below the method's own; with
    `aggressive` also far below, where large values matter no more than others.
    """
    result = dict(entries)
    for name, one in importance.items():
        entry = entries[name]
        limit = max(-entry.minimum, entry.maximum, 0.0)
        lowest = lowest_of(one, entry) if aggressive else max(entry.threshold * GRID.deepest, limit / 64)
        highest = max(limit * headroom, entry.threshold)
        steps = max(math.ceil(math.log2(highest / lowest) * GRID.per_octave), 2) if aggressive else GRID.steps
        thresholds = lowest * elementary.power(highest / lowest, np.arange(steps) / (steps - 1))
        found = costs(one, limit, [float(t) for t in thresholds], signed=entry.minimum < 0, headroom=headroom)
        if np.isfinite(found).all() and found.any():
            result[name] = TensorThreshold(float(thresholds[int(np.argmin(found))]), entry.minimum, entry.maximum)
    return result


def lowest_of(one: Importance, entry: TensorThreshold) -> float:
    """A lower bound of a value's threshold: twice the magnitude below which nearly all squared gradients lie."""
    limit = max(-entry.minimum, entry.maximum, 0.0)
    squares = np.mean(one.squares, axis=0, dtype=np.float64)
    below: Floats = np.cumsum(squares)
    last = int(np.count_nonzero(below < GRID.nearly_all * squares.sum()))
    return min(2.0 * float(centers_of(limit)[min(last, BINS - 1)]), limit)
