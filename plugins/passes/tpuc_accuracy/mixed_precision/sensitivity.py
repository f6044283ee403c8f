"""Measure the loss of quantizing each layer alone, and score mixed-precision networks per sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from tpuc.api import ChipDescription, UniformPerAxis
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import Job, PortableModule, SampleReader, SampleSource, decibels, finite_pair
from tpuc_ops import top
from tpuc_ops.factorization import dot
from tpuc_ops.traits import KeepsGrid, states
from tpuc_quantize.remedies.channel_thresholds import eligible
from tpuc_quantize.simulation.network import FakeNetwork, Filters, State

from tpuc_accuracy.mixed_precision.search import Source


@dataclass(frozen=True)
class Score:
    """Sums over samples and outputs: products for the cosine, energies for the signal-to-noise ratio."""

    cosines: float = 0.0
    outputs: int = 0
    signal: float = 0.0
    noise: float = 0.0

    def __add__(self, other: Score) -> Score:
        return Score(
            self.cosines + other.cosines,
            self.outputs + other.outputs,
            self.signal + other.signal,
            self.noise + other.noise,
        )

    @property
    def cosine(self) -> float:
        """The mean cosine of an output."""
        return self.cosines / self.outputs if self.outputs else 1.0

    @property
    def sqnr_db(self) -> float:
        """Signal-to-quantization-noise ratio over all outputs and samples; infinite without noise."""
        return decibels(self.signal, self.noise)


@dataclass(frozen=True)
class FakeJob(Job["list[list[Score]]"]):
    """The state shared by jobs on a calibrated network. `floats` always run in float, results of `float_sums` are not
    rounded; `elements` are the stored types of values with several scales, `filters` those without nearest rounding.
    """

    network: PortableModule
    samples: SampleSource
    chip: ChipDescription | None
    mode: str
    floats: frozenset[str]
    shifts: Mapping[str, Array]
    elements: Mapping[str, UniformPerAxis] = field(default_factory=dict[str, UniformPerAxis])
    float_sums: frozenset[str] = frozenset()
    filters: Filters = field(default_factory=Filters)

    @property
    def shared(self) -> dict[str, Any]:
        """The arguments for another job on the same network."""
        return {one.name: getattr(self, one.name) for one in fields(FakeJob)}

    def open(self) -> tuple[FakeNetwork, SampleReader]:
        """The network, and its samples."""
        net = FakeNetwork(self.network.module, self.chip, self.mode, self.floats, self.float_sums, dict(self.filters))
        net.shift_biases(self.shifts)
        net.set_elements(self.elements)
        return net, SampleReader(self.samples)


@dataclass(frozen=True)
class SensitivityJob(FakeJob):
    """Per sample: the score with each of the `candidates` alone on integers; then the score with each of the `rounded`
    values alone rounded.

    The float values of a sample are computed once; each score recomputes only what depends on the change.
    """

    def prepare(self) -> Callable[[range], list[list[Score]]]:
        net, reader = self.open()
        layers, values = candidates(net), rounded(net)
        affected = [_affected(net, net.plan.steps[layer].results, layer + 1) for layer in layers]
        reached = [_affected(net, (slot,), 0) for slot in values]

        def one(index: int) -> list[Score]:
            exact = net.run(reader.read(index), integer=False, keep=True)
            exact_outputs = compared_outputs(net, exact)
            scores: list[Score] = []
            for layer, steps in zip(layers, affected, strict=True):
                state = exact.copy()
                net.run_step(layer, state, integer=True)
                _finish(net, steps, state)
                scores.append(score(compared_outputs(net, state), exact_outputs))
            for slot, steps in zip(values, reached, strict=True):
                state, array, grid = exact.copy(), exact.values[slot], net.grids[slot]
                assert array is not None
                assert grid is not None
                state.values[slot] = grid.round(array)
                _finish(net, steps, state)
                scores.append(score(compared_outputs(net, state), exact_outputs))
            return scores

        return lambda unit: [one(index) for index in unit]


@dataclass(frozen=True)
class MixedJob(FakeJob):
    """Per sample and choice: the score when the ops of a choice are float and all others integer.

    The first choice is computed whole, the others from the first differing step on.
    """

    choices: tuple[frozenset[str], ...] = field(default=())

    def prepare(self) -> Callable[[range], list[list[Score]]]:
        net, reader = self.open()
        elements = [self._elements(choice) for choice in self.choices]
        starts = [
            self._first(net, choice, scaled, elements[0]) for choice, scaled in zip(self.choices, elements, strict=True)
        ]

        def one(index: int) -> list[Score]:
            sample = reader.read(index)
            exact_outputs = compared_outputs(net, net.run(sample, integer=False, keep=True))
            base = net.start(sample)
            scores: list[Score] = []
            for choice, scaled, start in zip(self.choices, elements, starts, strict=True):
                net.set_elements(scaled)
                state = base if not scores else base.copy()
                for place in range(start if scores else 0, len(net.plan.steps)):
                    name = net.plan.steps[place].operation.name
                    net.run_step(place, state, integer=name not in choice and name not in self.floats)
                scores.append(score(compared_outputs(net, state), exact_outputs))
            return scores

        return lambda unit: [one(index) for index in unit]

    def _first(
        self,
        net: FakeNetwork,
        choice: frozenset[str],
        scaled: Mapping[str, UniformPerAxis],
        before: Mapping[str, UniformPerAxis],
    ) -> int:
        """The first step that differs from the first choice: in another mode, or with a value stored differently."""
        changed = choice ^ self.choices[0]
        stored = {name for name in {*scaled, *before} if scaled.get(name) != before.get(name)}
        for place, step in enumerate(net.plan.steps):
            values = {net.plan.names.get(slot, "") for slot in (*step.operands, *step.results)}
            if step.operation.name in changed or values & stored:
                return place
        return len(net.plan.steps)

    def _elements(self, choice: frozenset[str]) -> dict[str, UniformPerAxis]:
        """The stored types; values next to float ops have one scale."""
        kept = {value.name for value in eligible(self.network.module, self.floats | choice)}
        return {name: element for name, element in self.elements.items() if name in kept}


def candidates(net: FakeNetwork) -> tuple[int, ...]:
    """The steps that may become float: layers that are not float anyway."""
    return tuple(layer for layer in net.layers() if net.plan.steps[layer].operation.name not in net.floats)


def rounded(net: FakeNetwork) -> dict[int, tuple[str, ...]]:
    """The values with grids of their own, by slot, with all ops that compute or read them, directly or through ops that
    keep values: while one of these runs on integers the value is rounded.
    """
    root: dict[int, int] = {}
    found: dict[int, list[str]] = {}
    for step in net.plan.steps:
        name = step.operation.name
        keeps = states(step.operation.op, KeepsGrid)
        touched = [root[slot] for slot in step.operands if slot in root]
        for slot in step.results:
            if keeps and touched:
                root[slot] = touched[0]
            elif net.grids.get(slot) is not None:
                root[slot] = slot
                touched.append(slot)
        if net.can_be_integer(step) and name not in net.floats:
            for slot in dict.fromkeys(touched):
                found.setdefault(slot, []).append(name)
    return {slot: tuple(layers) for slot, layers in found.items()}


def sources(net: FakeNetwork, scores: Sequence[Score]) -> list[Source]:
    """The sources of noise, from the sums of `SensitivityJob`: values, and the noise of each layer beyond that of its
    values, which comes from its filters.
    """
    layers = [net.plan.steps[layer].operation.name for layer in candidates(net)]
    values = rounded(net)
    noise = {slot: one.noise for slot, one in zip(values, scores[len(layers) :], strict=True)}
    found = [Source(noise[slot], frozenset(touching)) for slot, touching in values.items()]
    for name, one in zip(layers, scores, strict=False):
        around = sum(noise[slot] for slot, touching in values.items() if name in touching)
        found.append(Source(max(one.noise - around, 0.0), frozenset((name,))))
    return found


def ways(net: FakeNetwork, found: Sequence[Source], elements: Collection[str]) -> list[tuple[str, ...]]:
    """For each source the layers that must be float to remove it, with all that compute or read a value in `elements`
    next to one of them, since such a value loses its scales per channel next to a float op. In network order.
    """
    order = {step.operation.name: place for place, step in enumerate(net.plan.steps)}
    shared = [set(layers) for slot, layers in rounded(net).items() if net.plan.names.get(slot, "") in elements]
    result: list[tuple[str, ...]] = []
    for source in found:
        combined = set(source.layers)
        while more := [layers for layers in shared if combined & layers and not layers <= combined]:
            combined.update(*more)
        result.append(tuple(sorted(combined, key=lambda name: order[name])))
    return result


def compared_outputs(net: FakeNetwork, state: State) -> dict[str, Array]:
    """The outputs, with softmaxes replaced by their operands: probabilities of a few samples are mostly 0 or 1."""
    producers = {slot: step for step in net.plan.steps for slot in step.results}
    result = net.outputs(state)
    for name, slot in net.plan.outputs:
        step = producers.get(slot)
        if step is not None and isinstance(step.operation.op, top.Softmax):
            array = state.values[step.operands[0]]
            assert array is not None
            result[name] = array
    return result


def score(got: Mapping[str, Array], exact_outputs: Mapping[str, Array]) -> Score:
    """The score of the outputs of one sample."""
    result = Score()
    for name, reference in exact_outputs.items():
        pair = finite_pair(got[name], reference)
        if pair is None:
            result += Score(0.0, 1, 0.0, math.inf)
            continue
        b, a = pair
        signal, error = dot(a, a), a - b
        norms = math.sqrt(signal) * math.sqrt(dot(b, b))
        alike = dot(a, b) / norms if norms else float(not a.any() and not b.any())
        result += Score(alike, 1, signal, dot(error, error))
    return result


def total(results: Iterable[Sequence[Sequence[Score]]], count: int) -> list[Score]:
    """The sums over all samples, in order."""
    sums = [Score()] * count
    for unit in results:
        for sample in unit:
            sums = [before + one for before, one in zip(sums, sample, strict=True)]
    return sums


def _affected(net: FakeNetwork, slots: Sequence[int], first: int) -> tuple[int, ...]:
    """The steps from `first` on that depend on values."""
    touched = set(slots)
    result: list[int] = []
    for index in range(first, len(net.plan.steps)):
        step = net.plan.steps[index]
        if touched.intersection(step.operands):
            touched.update(step.results)
            result.append(index)
    return tuple(result)


def _finish(net: FakeNetwork, steps: Sequence[int], state: State) -> None:
    for index in steps:
        net.run_step(index, state, integer=False)
