"""Tuning by what the network's answers feel: rounding and clipping errors weighed with sensitivities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tpuc.api.host import Array, Job, PortableModule, SampleReader, SampleSource

from tpuc_passes.accuracy.channels import bin_costs
from tpuc_passes.accuracy.gradients import Gradients
from tpuc_passes.accuracy.grids import symmetric_grid
from tpuc_passes.accuracy.network import FakeNetwork
from tpuc_passes.calibration.table import TensorThreshold

BINS = 1024
STEPS = 48
UNSEEN = 1.3
"""Other data may reach so much further than the calibration's: half of the cost is that of values so much larger."""
DEEPEST = 0.5
"""The lowest candidate as a part of the method's threshold."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Importance:
    """Per sample and bin of magnitude: squared gradients summed, and gradients with the sign of their value summed.

    `channels`: the `bin_costs` of all samples, for values that may have thresholds per channel.
    """

    squares: tuple[NDArray[np.float32], ...] = ()
    sums: tuple[NDArray[np.float32], ...] = ()
    channels: NDArray[np.float32] | None = None

    def __add__(self, other: Importance) -> Importance:
        parts = [one for one in (self.channels, other.channels) if one is not None]
        channels = np.add(*parts) if len(parts) == 2 else parts[0] if parts else None
        return Importance(self.squares + other.squares, self.sums + other.sums, channels)


@dataclass(frozen=True)
class ImportanceJob(Job["dict[str, Importance]"]):
    """Per value in `limits`, with bins up to that limit; for those in `wide` also by channel. `powers` are the mean
    squares that `Gradients` needs.
    """

    network: PortableModule
    samples: SampleSource
    limits: Mapping[str, float]
    powers: Mapping[str, float]
    wide: frozenset[str] = frozenset()

    def prepare(self) -> Callable[[range], dict[str, Importance]]:
        net, reader = FakeNetwork(self.network.module), SampleReader(self.samples)
        gradients = Gradients(net)
        names = {slot: name for slot, name in net.plan.names.items() if name in self.limits}
        powers = {slot: self.powers[name] for slot, name in net.plan.names.items() if name in self.powers}

        def run(unit: range) -> dict[str, Importance]:
            result: dict[str, Importance] = {}
            for index in unit:
                state = net.run(reader.read(index), integer=False, keep=True)
                weights = gradients.weights(state, np.random.default_rng(index), powers)
                for slot, name in names.items():
                    value, gradient = state.values[slot], weights.get(slot)
                    if value is not None and gradient is not None:
                        limit = self.limits[name]
                        channels = bin_costs(value, gradient, limit) if name in self.wide else None
                        found = _importance(value, gradient, limit, channels)
                        result[name] = result[name] + found if name in result else found
            return result

        return run


def _importance(value: Array, gradient: Array, limit: float, channels: Array | None) -> Importance:
    value, gradient = value.reshape(-1), gradient.reshape(-1)
    places = np.minimum(np.abs(value) * np.float32(BINS / limit), np.float32(BINS - 1)).astype(np.int32)
    squares = np.bincount(places, weights=gradient * gradient, minlength=BINS)
    sums = np.bincount(places, weights=np.copysign(gradient, gradient * value), minlength=BINS)
    return Importance((squares.astype(np.float32),), (sums.astype(np.float32),), channels)


def mean_square(all_counts: NDArray[np.int64], absmax: float) -> float:
    """Of a value, by its histogram with the zeros first."""
    centres = np.arange(0.5, all_counts.size - 1) * (absmax / (all_counts.size - 1))
    return float(all_counts[1:] @ centres**2) / max(int(all_counts.sum()), 1)


def merged(results: Iterable[Mapping[str, Importance]]) -> dict[str, Importance]:
    """All samples, in the order of units."""
    every: dict[str, Importance] = {}
    for unit in results:
        for name, one in unit.items():
            every[name] = every.get(name, Importance()) + one
    return every


def costs(importance: Importance, limit: float, thresholds: Sequence[float], *, signed: bool) -> Floats:
    """Expected squared error of the answers per threshold.

    Rounding errors are as good as independent: their squares add up. What is cut off has the sign of its value and may
    add up in the answers as it is. The larger of both counts.
    """
    squares = np.mean(importance.squares, axis=0, dtype=np.float64)
    sums = np.asarray(importance.sums, np.float64)
    centres = np.arange(0.5, BINS) * (limit / BINS)
    result = np.empty(len(thresholds))
    for place, threshold in enumerate(thresholds):
        grid = symmetric_grid(threshold, signed=signed)
        cost = float(squares @ np.where(centres < grid.scale / 2, centres**2, grid.scale**2 / 12))
        for reach in (1.0, UNSEEN):
            beyond = np.maximum(centres * reach - grid.limits[1], 0.0)
            cost += max(float(squares @ beyond**2), float(((sums @ beyond) ** 2).mean())) / 2
        result[place] = cost
    return result


def choose_by_answers(
    entries: Mapping[str, TensorThreshold], importance: Mapping[str, Importance]
) -> dict[str, TensorThreshold]:
    """The entries with the threshold that costs the answers least, a little above or below the method's own."""
    result = dict(entries)
    for name, one in importance.items():
        entry = entries[name]
        limit = max(-entry.minimum, entry.maximum, 0.0)
        lowest, highest = max(entry.threshold * DEEPEST, limit / 64), max(limit * UNSEEN, entry.threshold)
        thresholds = np.geomspace(lowest, highest, STEPS)
        found = costs(one, limit, [float(t) for t in thresholds], signed=entry.minimum < 0)
        if np.isfinite(found).all() and found.any():
            result[name] = TensorThreshold(float(thresholds[int(np.argmin(found))]), entry.minimum, entry.maximum)
    return result


def by_cost(entries: Mapping[str, TensorThreshold], importance: Mapping[str, Importance]) -> list[str]:
    """The values by what their quantisation costs the answers, the dearest first."""
    found: dict[str, float] = {}
    for name, one in importance.items():
        entry = entries[name]
        limit = max(-entry.minimum, entry.maximum, 0.0)
        found[name] = float(costs(one, limit, [entry.threshold], signed=entry.minimum < 0)[0])
    return sorted(found, key=lambda name: -found[name])
