"""Collect statistics of every value over units of samples, and merge the results of workers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from tpuc.api import CalibrationError, Module
from tpuc.api.evaluation import Array, Interpreter
from tpuc_driver.api.host import Job, PortableModule, SampleInput, SampleReader, SampleSource, inputs_of
from tpuc_optimize.canonicalization.masks import hidden_values

from tpuc_quantize.observers.class_coverage import Score, Scores, scores_of, wins
from tpuc_quantize.observers.histogram import CountingBuffers, Histogram
from tpuc_quantize.remedies.bias_correction import MeansWatcher, ProductMeans
from tpuc_quantize.simulation.network import FakeNetwork, Filters

Histograms: TypeAlias = dict[str, Histogram]
Outputs: TypeAlias = Mapping[str, Array]
Means: TypeAlias = Mapping[str, ProductMeans]


@dataclass(frozen=True)
class Seen:
    """The results of one run: outputs and values kept with them, and optionally all values and means of products."""

    outputs: Outputs
    values: Outputs
    products: Means


@dataclass(frozen=True)
class UnitResult:
    """The results of a work unit: histograms by value name, unreadable samples with the reason, and what is kept of
    some samples: outputs, all values, means of products.
    """

    histograms: Histograms = field(default_factory=dict[str, Histogram])
    unreadable: tuple[tuple[int, str], ...] = ()
    outputs: Mapping[int, Outputs] = field(default_factory=dict[int, "Outputs"])
    values: Mapping[int, Outputs] = field(default_factory=dict[int, "Outputs"])
    products: Mapping[int, Means] = field(default_factory=dict[int, "Means"])


@dataclass(frozen=True)
class Kept:
    """What is kept of the counting run: for the samples at these places the network's outputs and the named values; for
    those at the places `whole` every value, so that observation need not recompute it; for those at the places
    `biased` the means of products, for which threads share `filters`.
    """

    places: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()
    whole: frozenset[int] = frozenset()
    biased: frozenset[int] = frozenset()
    filters: Filters = field(default_factory=dict[int, "tuple[Array, Array]"], compare=False)

    def watcher(self, module: Module) -> MeansWatcher | None:
        """The collector of means of products; None where none are needed."""
        watcher = MeansWatcher(FakeNetwork(module, stored=self.filters)) if self.biased else None
        return watcher if watcher is not None and watcher.finds else None


@dataclass(frozen=True)
class Counting:
    """How values are counted: the number of bins, or with `counting` False ranges only; and the `scores`. Values that
    are -inf in `hidden` places are not counted.
    """

    bins: int
    counting: bool = True
    scores: Scores = field(default_factory=dict[str, Score])
    hidden: frozenset[str] = frozenset()

    def see(self, into: Histograms, name: str, array: Array, buffers: CountingBuffers) -> None:
        """Count a value; integers have no statistics."""
        if array.dtype.kind != "f":
            return
        if name in self.hidden:
            array = _shown(name, array)
        if name not in into:
            into[name] = Histogram(name, self.bins, counting=self.counting)
        into[name].update(array, buffers)
        if name in self.scores:
            into[name].wins = into[name].wins + wins(array, self.scores[name])


class CountingRun:
    """Runs samples and counts their values on one thread; keeps what `kept` asks for."""

    def __init__(self, network: PortableModule, counting: Counting, kept: Kept) -> None:
        self.interpreter = Interpreter(network.module)
        self._counting, self._kept, self._watcher = counting, kept, kept.watcher(network.module)
        self._buffers = CountingBuffers(counting.bins)

    def run(self, index: int, sample: Mapping[str, Array], into: Histograms, names: Collection[str]) -> Seen:
        """Run the sample at a place; the outputs include the named values."""
        values, products = dict[str, Array](), dict[str, ProductMeans]()
        whole, watcher = index in self._kept.whole, self._watcher if index in self._kept.biased else None

        def see(name: str, array: Array) -> None:
            self._counting.see(into, name, array, self._buffers)
            if whole:
                values[name] = array
            if watcher is not None:
                watcher.see(name, array, products)

        return Seen(self.interpreter.run(sample, names, on_value=see), values, products)


def counting_of(module: Module, bins: int, *, counting: bool) -> Counting:
    """How the values of a network are counted."""
    return Counting(bins, counting, scores_of(module), hidden_values(module))


def inputs_to_count(module: Module) -> list[SampleInput]:
    """A network's inputs; only masks may contain -inf."""
    hidden = hidden_values(module)
    return [replace(one, may_hide=one.name in hidden) for one in inputs_of(module)]


def _shown(name: str, array: Array) -> Array:
    """The elements that are not masked."""
    if np.isnan(array).any():
        raise CalibrationError(
            f"{name}: NaN during calibration, as from a softmax over a row of -inf. Mask with the lowest finite "
            "number, or do not mask whole rows."
        )
    return array[array != -np.inf]


@dataclass(frozen=True)
class StatisticsJob(Job[UnitResult]):
    """Computes histograms of every float value, and what is `kept`."""

    network: PortableModule
    samples: SampleSource
    counting: Counting
    kept: Kept = Kept()

    def prepare(self) -> Callable[[range], UnitResult]:
        runner, reader = CountingRun(self.network, self.counting, self.kept), SampleReader(self.samples)

        def run(unit: range) -> UnitResult:
            result: Histograms = {}
            unreadable: list[tuple[int, str]] = []
            outputs, values, products = dict[int, Outputs](), dict[int, Outputs](), dict[int, Means]()
            for index in unit:
                try:
                    sample = reader.read(index)
                except CalibrationError as error:
                    unreadable.append((index, str(error)))
                    continue
                names = self.kept.names if index in self.kept.places else ()
                seen = runner.run(index, sample, result, names)
                outputs |= {index: seen.outputs} if index in self.kept.places else {}
                values |= {index: seen.values} if seen.values else {}
                products |= {index: seen.products} if seen.products else {}
            return UnitResult(result, tuple(unreadable), outputs, values, products)

        return run


def merge_histograms(into: Histograms, other: Mapping[str, Histogram]) -> None:
    """Add the statistics of another unit."""
    for name, one in other.items():
        if name in into:
            into[name].merge(one)
        else:
            into[name] = one
