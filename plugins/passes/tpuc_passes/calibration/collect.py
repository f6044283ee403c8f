"""Statistics of every value over units of samples: what each worker does, and how its results are merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from tpuc.api import CalibrationError
from tpuc.api.host import Array, Interpreter, Job, PortableModule, SampleReader, SampleSource

from tpuc_passes.calibration.statistics import CountingBuffers, Histogram, TensorRange

Ranges: TypeAlias = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class UnitResult:
    """What a unit gives: ranges or counts by value name, and the samples that could not be read with the reason."""

    ranges: Ranges = field(default_factory=dict[str, tuple[float, float]])
    counts: Mapping[str, NDArray[np.int64]] = field(default_factory=dict[str, NDArray[np.int64]])
    unreadable: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class RangeJob(Job[UnitResult]):
    """Lowest and highest value of every float value."""

    network: PortableModule
    samples: SampleSource

    def prepare(self) -> Callable[[range], UnitResult]:
        interpreter, reader = Interpreter(self.network.module), SampleReader(self.samples)

        def run(unit: range) -> UnitResult:
            ranges: dict[str, TensorRange] = {}
            unreadable: list[tuple[int, str]] = []
            for index in unit:
                try:
                    sample = reader.read(index)
                except CalibrationError as error:
                    unreadable.append((index, str(error)))
                    continue
                interpreter.run(sample, on_value=lambda name, array: see(ranges, name, array))
            return UnitResult(limits_of(ranges), unreadable=tuple(unreadable))

        return run


@dataclass(frozen=True)
class CountJob(Job[UnitResult]):
    """Histograms of the values in `ranges`; samples in `skipped` are left out."""

    network: PortableModule
    samples: SampleSource
    ranges: Ranges
    bins: int
    skipped: frozenset[int] = frozenset()

    def prepare(self) -> Callable[[range], UnitResult]:
        interpreter, reader = Interpreter(self.network.module), SampleReader(self.samples)
        seen = {name: TensorRange.of(name, *limits) for name, limits in self.ranges.items()}
        buffers = CountingBuffers(self.bins)

        def run(unit: range) -> UnitResult:
            histograms = {name: Histogram(one, self.bins) for name, one in seen.items()}

            def count(name: str, array: Array) -> None:
                if name in histograms:
                    histograms[name].update(array, buffers)

            for index in unit:
                if index not in self.skipped:
                    interpreter.run(reader.read(index), on_value=count)
            return UnitResult(counts={name: one.all_counts for name, one in histograms.items()})

        return run


def merge_ranges(into: dict[str, tuple[float, float]], other: Ranges) -> None:
    """Widen the ranges by what another unit has seen."""
    for name, (low, high) in other.items():
        before = into.get(name, (low, high))
        into[name] = (min(before[0], low), max(before[1], high))


def merge_counts(into: dict[str, NDArray[np.int64]], other: Mapping[str, NDArray[np.int64]]) -> None:
    """Add the counts of another unit over the same ranges."""
    for name, counts in other.items():
        if name in into:
            into[name] += counts
        else:
            into[name] = counts.copy()


def absmax(limits: tuple[float, float]) -> float:
    """The larger magnitude of a range."""
    return max(-limits[0], limits[1], 0.0)


def grown(before: Ranges, after: Ranges) -> Sequence[str]:
    """The values whose bins are no longer those of earlier counts."""
    return [name for name, limits in after.items() if name in before and absmax(before[name]) != absmax(limits)]


def see(ranges: dict[str, TensorRange], name: str, array: Array) -> None:
    """Widen the range of a value; integers have none."""
    if array.dtype.kind == "f":
        ranges.setdefault(name, TensorRange(name)).update(array)


def limits_of(ranges: Mapping[str, TensorRange]) -> Ranges:
    """Lowest and highest value by name."""
    return {name: (one.minimum, one.maximum) for name, one in ranges.items()}
