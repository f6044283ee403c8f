"""Tuning by what the network's outputs feel: rounding and clipping errors weighed with squared sensitivities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tpuc.api.host import Array, Job, PortableModule, SampleReader, SampleSource

from tpuc_passes.accuracy.gradients import Gradients
from tpuc_passes.accuracy.grids import symmetric_grid
from tpuc_passes.accuracy.network import FakeNetwork
from tpuc_passes.calibration.table import TensorThreshold

BINS = 2048
LOWEST = 1 / 64
"""The lowest candidate, as a part of absmax."""
STEPS = 96

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PowerJob(Job["dict[int, tuple[float, int]]"]):
    """Sums of squares and counts of what gradients start from, by slot."""

    network: PortableModule
    samples: SampleSource

    def prepare(self) -> Callable[[range], dict[int, tuple[float, int]]]:
        net, reader = FakeNetwork(self.network.module), SampleReader(self.samples)

        def run(unit: range) -> dict[int, tuple[float, int]]:
            result: dict[int, tuple[float, int]] = {}
            for index in unit:
                state = net.run(reader.read(index), integer=False, keep=True)
                for slot, value in enumerate(state.values):
                    if slot in net.constants or value is None or value.dtype.kind != "f" or not value.size:
                        continue
                    flat = value.reshape(-1)
                    before = result.get(slot, (0.0, 0))
                    result[slot] = before[0] + float(np.dot(flat, flat)), before[1] + flat.size
            return result

        return run


@dataclass(frozen=True)
class ImportanceJob(Job["dict[str, Floats]"]):
    """Per value in `limits` a histogram of its magnitudes up to that limit in which every element counts with its
    squared gradient: how much squared output error a unit of squared error there costs.
    """

    network: PortableModule
    samples: SampleSource
    limits: Mapping[str, float]
    powers: Mapping[int, float]

    def prepare(self) -> Callable[[range], dict[str, Floats]]:
        net, reader = FakeNetwork(self.network.module), SampleReader(self.samples)
        gradients = Gradients(net)
        names = {slot: name for slot, name in net.plan.names.items() if name in self.limits}

        def run(unit: range) -> dict[str, Floats]:
            result: dict[str, Floats] = {}
            for index in unit:
                state = net.run(reader.read(index), integer=False, keep=True)
                found = gradients.weights(state, np.random.default_rng(index), self.powers)
                for slot, name in names.items():
                    value, gradient = state.values[slot], found.get(slot)
                    if value is not None and gradient is not None:
                        counts = _weighed(value, gradient, self.limits[name])
                        result[name] = result[name] + counts if name in result else counts
            return result

        return run


def _weighed(value: Array, gradient: Array, limit: float) -> Floats:
    places = np.abs(value.reshape(-1)) * np.float32(BINS / limit)
    np.minimum(places, BINS - 1, out=places)
    weights = gradient.reshape(-1) * gradient.reshape(-1)
    return np.bincount(places.astype(np.int32), weights=weights, minlength=BINS)


def merged_powers(results: Iterable[Mapping[int, tuple[float, int]]]) -> dict[int, float]:
    """Mean squares over all units."""
    sums: dict[int, tuple[float, int]] = {}
    for unit in results:
        for slot, (energy, count) in unit.items():
            before = sums.get(slot, (0.0, 0))
            sums[slot] = before[0] + energy, before[1] + count
    return {slot: energy / count for slot, (energy, count) in sums.items()}


def merged(results: Iterable[Mapping[str, Floats]]) -> dict[str, Floats]:
    """The histograms over all units."""
    sums: dict[str, Floats] = {}
    for unit in results:
        for name, counts in unit.items():
            sums[name] = sums[name] + counts if name in sums else counts
    return sums


def costs(counts: Floats, limit: float, thresholds: Sequence[float], *, signed: bool) -> Floats:
    """Expected squared output error per threshold: values inside are rounded, those outside are cut."""
    centres = np.arange(0.5, counts.size) * (limit / counts.size)
    result = np.empty(len(thresholds))
    for place, threshold in enumerate(thresholds):
        grid = symmetric_grid(threshold, signed=signed)
        top = grid.limits[1]
        inside = np.where(centres < grid.scale / 2, centres**2, grid.scale**2 / 12)
        result[place] = float(counts @ np.where(centres > top, (centres - top) ** 2, inside))
    return result


def choose_by_outputs(
    entries: Mapping[str, TensorThreshold], histograms: Mapping[str, Floats], names: Iterable[str]
) -> dict[str, TensorThreshold]:
    """The entries of `names` with the threshold that costs the outputs least; those without importance as they are."""
    result = dict(entries)
    for name in names:
        counts, entry = histograms.get(name), entries[name]
        limit = max(-entry.minimum, entry.maximum, 0.0)
        if counts is None or not counts.any() or limit <= 0:
            continue
        thresholds = np.geomspace(limit * LOWEST, limit, STEPS)
        found = costs(counts, limit, list(thresholds), signed=entry.minimum < 0)
        best = float(thresholds[int(np.argmin(found))])
        result[name] = TensorThreshold(best, entry.minimum, entry.maximum)
    return result
