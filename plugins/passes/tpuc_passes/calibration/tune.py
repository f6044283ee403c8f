"""Tuning (SPEC C3): of several thresholds between the method's and absmax, the one that changes a result least."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tpuc.api.host import Array, Job, PortableModule, SampleReader, SampleSource, Step
from tpuc_ops.top.conv import Conv

from tpuc_passes.accuracy.grids import Grid, symmetric_grid
from tpuc_passes.accuracy.network import FakeNetwork, State
from tpuc_passes.calibration.table import TensorThreshold

FILTERS = 32
MUCH_WORK = 1e8
"""Distances of convolutions with more operations are taken on `FILTERS` to twice as many channels, evenly spread."""
SMALLEST_GAIN = 0.01
"""Thresholds nearer to absmax than this part of it are not tuned."""

Place = tuple[int, int]
"""A use of a value: step index and operand position; a step index of -1 is the network's result of that number."""
Distances = Mapping[Place, NDArray[np.float64]]


@dataclass(frozen=True)
class Candidates:
    """Thresholds to choose from, evenly spaced, the method's own first and absmax last."""

    thresholds: tuple[float, ...]
    signed: bool

    @property
    def grids(self) -> tuple[Grid, ...]:
        """How each would store the value."""
        return tuple(symmetric_grid(one, signed=self.signed) for one in self.thresholds)


def candidates_of(entries: Mapping[str, TensorThreshold], count: int) -> dict[str, Candidates]:
    """The values worth tuning."""
    result: dict[str, Candidates] = {}
    for name, entry in entries.items():
        absmax = max(-entry.minimum, entry.maximum, 0.0)
        if absmax - entry.threshold >= SMALLEST_GAIN * absmax and absmax > 0:
            steps = np.linspace(entry.threshold, absmax, count)
            result[name] = Candidates(tuple(float(step) for step in steps), entry.minimum < 0)
    return result


@dataclass(frozen=True)
class TuneJob(Job["list[Distances]"]):
    """Per sample and use of a value: the squared Euclidean distance of the op's result for each candidate.

    Operands other than the tuned one lie on the grids of `entries`, filters are int8.
    """

    network: PortableModule
    samples: SampleSource
    entries: Mapping[str, TensorThreshold]
    candidates: Mapping[str, Candidates]
    skipped: frozenset[int] = frozenset()

    def prepare(self) -> Callable[[range], list[Distances]]:
        tuner, reader = _Tuner(self), SampleReader(self.samples)
        return lambda unit: [tuner.distances(reader.read(index)) for index in unit if index not in self.skipped]


class _Tuner:
    def __init__(self, job: TuneJob) -> None:
        self.net = FakeNetwork(job.network.module)
        names = self.net.plan.names
        self.grids: dict[int, Grid] = {}
        self.choices: dict[int, tuple[Grid, ...]] = {}
        for slot, name in names.items():
            if name in job.entries:
                entry = job.entries[name]
                self.grids[slot] = symmetric_grid(entry.threshold, signed=entry.minimum < 0)
            if name in job.candidates:
                self.choices[slot] = job.candidates[name].grids

    def distances(self, sample: Mapping[str, Array]) -> Distances:
        result: dict[Place, NDArray[np.float64]] = {}

        def before(index: int, state: State) -> None:
            self._step(index, state, result)

        state = self.net.run(sample, integer=False, on_step=before)
        for number, (_, slot) in enumerate(self.net.plan.outputs):
            array = state.values[slot]
            if slot in self.choices and array is not None:
                result[-1, number] = np.array([_energy(array, grid.round(array)) for grid in self.choices[slot]])
        return result

    def _step(self, index: int, state: State, result: dict[Place, NDArray[np.float64]]) -> None:
        step: Step = self.net.plan.steps[index]
        tuned = [position for position, slot in enumerate(step.operands) if slot in self.choices]
        if not tuned:
            return
        plain = [array for slot in step.operands if (array := state.values[slot]) is not None]
        filters = self.net.filters(index) if self.net.is_product(index) else None
        part = self._part(index)
        wanted = self._evaluate(index, plain, part)
        fixed = [
            self.grids[slot].round(array) if slot in self.grids else array
            for slot, array in zip(step.operands, plain, strict=True)
        ]
        if filters is not None:
            fixed[1] = filters
        for position in tuned:
            result[index, position] = np.array(
                [
                    sum(
                        _energy(a, b)
                        for a, b in zip(
                            wanted,
                            self._evaluate(index, _with(fixed, position, grid.round(plain[position])), part),
                            strict=True,
                        )
                    )
                    for grid in self.choices[step.operands[position]]
                ]
            )

    def _part(self, index: int) -> slice | None:
        """Which filters of a convolution tell enough about its result; None: all."""
        step = self.net.plan.steps[index]
        op = step.operation.op
        if (
            not isinstance(op, Conv)
            or op.group != 1
            or not self.net.is_product(index)
            or op.flops(step.node) < MUCH_WORK
        ):
            return None
        every = step.node.operand_types[1].dims[0] // FILTERS
        return slice(None, None, every) if every > 1 else None

    def _evaluate(self, index: int, operands: Sequence[Array], part: slice | None) -> Sequence[Array]:
        if part is None:
            return self.net.evaluate(index, operands)
        step = self.net.plan.steps[index]
        filters = operands[1][part]
        bias = operands[2].reshape(-1)[part] if operands[2].size else operands[2]
        result = step.node.result_type
        fewer = result.with_shape((result.dims[0], filters.shape[0], *result.dims[2:]))
        node = replace(step.node, result_types=(fewer,))
        return step.operation.op.evaluate(node, [operands[0], filters, bias])


def _with(arrays: Sequence[Array], position: int, array: Array) -> list[Array]:
    return [*arrays[:position], array, *arrays[position + 1 :]]


def _energy(wanted: Array, got: Array) -> float:
    error = (wanted - got).reshape(-1)
    return float(error @ error)


def choose(
    job: TuneJob,
    totals: Distances,
    entries: Mapping[str, TensorThreshold],
    floors: Mapping[str, TensorThreshold] | None = None,
) -> dict[str, TensorThreshold]:
    """The entries with tuned thresholds: least distance, of several uses the largest; none below those of `floors`."""
    plan = FakeNetwork(job.network.module).plan
    best: dict[str, float] = {}
    for (index, position), distances in totals.items():
        slot = plan.outputs[position][1] if index < 0 else plan.steps[index].operands[position]
        name = plan.names[slot]
        thresholds = np.array(job.candidates[name].thresholds)
        lowest = 0.0 if floors is None else min(floors[name].threshold, float(thresholds[-1]))
        allowed = np.where(thresholds >= lowest, distances, np.inf)
        threshold = float(thresholds[int(np.argmin(allowed))])
        best[name] = max(best.get(name, 0.0), threshold)
    kept = entries if floors is None else floors
    return {
        name: TensorThreshold(best.get(name, kept[name].threshold), entry.minimum, entry.maximum)
        for name, entry in entries.items()
    }


def total(results: Iterable[Sequence[Distances]]) -> Distances:
    """The distances summed in the order of samples."""
    totals: dict[Place, NDArray[np.float64]] = {}
    for unit in results:
        for sample in unit:
            for place, distances in sample.items():
                totals[place] = totals[place] + distances if place in totals else distances
    return totals
