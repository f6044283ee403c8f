"""Collects statistics of every value over units of samples, and merges the results of workers."""

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
    """What a run gives: outputs and what is kept with them, and where that is wanted all values, means of products."""

    outputs: Outputs
    values: Outputs
    products: Means


@dataclass(frozen=True)
class UnitResult:
    """What a unit gives: histograms by value name, the samples that could not be read with the reason, and what is kept
    of some: outputs, all values, means of products.
    """

    histograms: Histograms = field(default_factory=dict[str, Histogram])
    unreadable: tuple[tuple[int, str], ...] = ()
    outputs: Mapping[int, Outputs] = field(default_factory=dict[int, "Outputs"])
    values: Mapping[int, Outputs] = field(default_factory=dict[int, "Outputs"])
    products: Mapping[int, Means] = field(default_factory=dict[int, "Means"])


@dataclass(frozen=True)
class Kept:
    """What is kept of the run that counts values: of the samples at these places the network's outputs, and the values
    of these names; of those at the places `whole` every value, so that observation does not compute it again, and of
    those at the places `biased` the means of products, for which threads share `filters`.
    """

    places: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()
    whole: frozenset[int] = frozenset()
    biased: frozenset[int] = frozenset()
    filters: Filters = field(default_factory=dict[int, "tuple[Array, Array]"], compare=False)

    def watcher(self, module: Module) -> MeansWatcher | None:
        """What finds the means of products; None where none are wanted."""
        watcher = MeansWatcher(FakeNetwork(module, stored=self.filters)) if self.biased else None
        return watcher if watcher is not None and watcher.finds else None


@dataclass(frozen=True)
class Counting:
    """How values are counted: in how many bins, or with `counting` False their ranges only; and what `scores` say.
    Where `hidden` values are -inf, they are not counted.
    """

    bins: int
    counting: bool = True
    scores: Scores = field(default_factory=dict[str, Score])
    hidden: frozenset[str] = frozenset()

    def see(self, into: Histograms, name: str, array: Array, buffers: CountingBuffers) -> None:
        """Take a value into account; integers have no statistics."""
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
    """Runs samples and counts their values, on one thread; keeps of some what is `kept`."""

    def __init__(self, network: PortableModule, counting: Counting, kept: Kept) -> None:
        self.interpreter = Interpreter(network.module)
        self._counting, self._kept, self._watcher = counting, kept, kept.watcher(network.module)
        self._buffers = CountingBuffers(counting.bins)

    def run(self, index: int, sample: Mapping[str, Array], into: Histograms, names: Collection[str]) -> Seen:
        """A sample at its place; the outputs come with the values of `names`."""
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
    """A network's inputs, of which only masks may be -inf."""
    hidden = hidden_values(module)
    return [replace(one, may_hide=one.name in hidden) for one in inputs_of(module)]


def _shown(name: str, array: Array) -> Array:
    """The elements that are not hidden."""
    if np.isnan(array).any():
        raise CalibrationError(
            f"{name}: NaN during calibration, as from a softmax over a row of -inf. Mask with the lowest finite "
            "number, or do not mask whole rows."
        )
    return array[array != -np.inf]


@dataclass(frozen=True)
class StatisticsJob(Job[UnitResult]):
    """Histograms of every float value, and what is `kept`."""

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
    """Add what another unit has seen."""
    for name, one in other.items():
        if name in into:
            into[name].merge(one)
        else:
            into[name] = one
