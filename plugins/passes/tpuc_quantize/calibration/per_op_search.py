"""Per-op search: among thresholds between the estimator's and absmax, choose the one that changes the op's result
least.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tpuc.api import Elementwise, Node, Op
from tpuc.api.evaluation import Array, Step
from tpuc_ops import top
from tpuc_ops.factorization import error_energy

from tpuc_quantize.options.tuning import GRID
from tpuc_quantize.simulation.grids import Grid, symmetric_grid
from tpuc_quantize.simulation.network import FakeNetwork, State, product_of_integers
from tpuc_quantize.tables.table import TensorThreshold

Place = tuple[int, int]
"""A use of a value: step index and operand position; step index -1 means the network's result of that number."""
Distances = Mapping[Place, NDArray[np.float64]]


@dataclass(frozen=True)
class Candidates:
    """Candidate thresholds, evenly spaced, the method's own first and absmax last."""

    thresholds: tuple[float, ...]
    signed: bool

    @property
    def grids(self) -> tuple[Grid, ...]:
        """The quantization grid of each threshold."""
        return tuple(symmetric_grid(one, signed=self.signed) for one in self.thresholds)


def candidates_of(entries: Mapping[str, TensorThreshold], count: int) -> dict[str, Candidates]:
    """The values for which tuning can help."""
    result: dict[str, Candidates] = {}
    for name, entry in entries.items():
        absmax = max(-entry.minimum, entry.maximum, 0.0)
        if absmax - entry.threshold >= GRID.least_gain * absmax and absmax > 0:
            steps = np.linspace(entry.threshold, absmax, count)
            result[name] = Candidates(tuple(float(step) for step in steps), entry.minimum < 0)
    return result


class Tuner:
    """Computes, for each use of a value and each candidate threshold, the squared Euclidean distance of the op's
    result.

    The other operands lie on the grids of `entries`, filters are int8.
    """

    def __init__(
        self, net: FakeNetwork, entries: Mapping[str, TensorThreshold], candidates: Mapping[str, Candidates]
    ) -> None:
        self.net = net
        self.candidates = candidates
        self.grids: dict[int, Grid] = {}
        self.choices: dict[int, tuple[Grid, ...]] = {}
        for slot, name in net.plan.names.items():
            if name in entries:
                entry = entries[name]
                self.grids[slot] = symmetric_grid(entry.threshold, signed=entry.minimum < 0)
            if name in candidates:
                self.choices[slot] = candidates[name].grids

    def outputs(self, state: State) -> Distances:
        """The distances of the network's results, after the last step."""
        result: dict[Place, NDArray[np.float64]] = {}
        for number, (_, slot) in enumerate(self.net.plan.outputs):
            array = state.values[slot]
            if slot in self.choices and array is not None:
                result[-1, number] = np.array([error_energy(array, grid.round(array)) for grid in self.choices[slot]])
        return result

    def step(self, index: int, state: State) -> Distances:
        """The distances of a step's uses, before it runs."""
        step = self.net.plan.steps[index]
        tuned = [position for position, slot in enumerate(step.operands) if slot in self.choices]
        result: dict[Place, NDArray[np.float64]] = {}
        if not tuned:
            return result
        plain = [array for slot in step.operands if (array := state.values[slot]) is not None]
        op, node, part = step.operation.op, step.node, self._part(index)
        all_operands = plain
        if part is not None:
            plain, op, node = part.of(plain), part.op(step), part.node(step)
        expected = op.evaluate(node, plain)
        product = self.net.is_product(index)
        fixed = [
            array if (product and position == 1) or slot not in self.grids else self.grids[slot].round(array)
            for position, (slot, array) in enumerate(zip(step.operands, plain, strict=True))
        ]

        def evaluated(position: int, grid: Grid) -> Sequence[Array]:
            if not product or position:
                return op.evaluate(node, _with(fixed, position, grid.round(plain[position])))
            rows, scales = self.net.integer_filters(index, grid.limit)
            if part is not None:
                rows, scales = part.of([all_operands[0], rows])[1], part.of([all_operands[0], scales])[1]
            x = grid.integers(plain[0]), grid.scale
            return [product_of_integers(op, node, x, (rows, scales), fixed[2:3])]

        def distance(position: int, grid: Grid) -> float:
            pairs = zip(expected, evaluated(position, grid), strict=True)
            return sum(error_energy(np.asarray(a), np.asarray(b)) for a, b in pairs)

        for position in tuned:
            choices = self.choices[step.operands[position]]
            result[index, position] = np.array([distance(position, grid) for grid in choices])
        return result

    def _part(self, index: int) -> _Part | _Rows | None:
        """A representative part of the result of an expensive step; None: the whole result."""
        step = self.net.plan.steps[index]
        op = step.operation.op
        if isinstance(op, (Elementwise, top.Concat)):
            return _rows(step)
        if isinstance(op, top.Conv) and not op.inserts and self.net.is_product(index):
            many = _separates_channels(step) and step.node.result_type.size >= GRID.many_elements
            return _Part.of_step(step) if many or (op.group == 1 and op.flops(step.node) >= GRID.much_work) else None
        many = isinstance(op, (top.MaxPool, top.AvgPool)) and step.node.result_type.size >= GRID.many_elements
        return _Part.of_step(step) if many else None


@dataclass(frozen=True)
class _Part:
    """Some channels and rows of the result of a convolution or a pool."""

    channels: slice
    rows: slice
    per_channel: bool
    """True if a channel of the result depends only on the same channel of the images."""

    @classmethod
    def of_step(cls, step: Step) -> _Part | None:
        """A part from the middle of the images; None where the operands are not images."""
        op, images, result = step.operation.op, step.node.operand_types[0], step.node.result_type
        assert isinstance(op, (top.Conv, top.MaxPool, top.AvgPool))
        if images.rank != 4 or result.rank != 4:
            return None
        window, rows = op.window(), images.dims[2]
        expected = -(-GRID.places // result.dims[-1])
        kept = min(rows, window.extents[0] + (expected - 1) * window.strides[0])
        first = (rows - kept) // 2
        every = max(result.dims[1] // GRID.channels, 1)
        return cls(slice(None, None, every), slice(first, first + kept), _separates_channels(step))

    def of(self, operands: Sequence[Array]) -> list[Array]:
        """The parts of images, filters and bias."""
        x, *filters = operands
        images = x[:, self.channels, self.rows] if self.per_channel else x[:, :, self.rows]
        return [images, *(one[self.channels] if one.ndim == 4 else one.reshape(-1)[self.channels] for one in filters)]

    def op(self, step: Step) -> Op:
        """The op, restricted to that many channels."""
        op = step.operation.op
        return replace(op, group=self._count(step)) if isinstance(op, top.Conv) and self.per_channel else op

    def node(self, step: Step) -> Node:
        """The step with the shape of its partial result."""
        op, x = step.operation.op, step.node.operand_types[0]
        assert isinstance(op, (top.Conv, top.MaxPool, top.AvgPool))
        first, last, _ = self.rows.indices(x.dims[2])
        size = op.window().output((last - first, x.dims[3]))
        kept = step.node.result_type.with_shape((x.dims[0], self._count(step), *size))
        return replace(step.node, result_types=(kept,))

    def _count(self, step: Step) -> int:
        return len(range(*self.channels.indices(step.node.result_type.dims[1])))


def _separates_channels(step: Step) -> bool:
    """True for pools and depthwise convolutions, where a result channel depends on one operand channel only."""
    op, channels = step.operation.op, step.node.operand_types[0].dims[1]
    return not isinstance(op, top.Conv) or op.group == channels == step.node.result_type.dims[1] > 1


@dataclass(frozen=True)
class _Rows:
    """Some rows along one axis of all operands of an element-wise op, or of a concatenation along another axis."""

    axis: int
    rows: slice

    def of(self, operands: Sequence[Array]) -> list[Array]:
        """The rows of the operands, which have equal extents along the axis."""
        place = (*(slice(None),) * self.axis, self.rows)
        return [np.ascontiguousarray(array[place]) for array in operands]

    def op(self, step: Step) -> Op:
        """The unchanged op."""
        return step.operation.op

    def node(self, step: Step) -> Node:
        """The step with the shape of its partial result."""
        dims = list(step.node.result_type.dims)
        dims[self.axis] = len(range(*self.rows.indices(dims[self.axis])))
        return replace(step.node, result_types=(step.node.result_type.with_shape(tuple(dims)),))


def _rows(step: Step) -> _Rows | None:
    result, operands, op = step.node.result_type, step.node.operand_types, step.operation.op
    every = result.size * 2 // GRID.many_elements
    if isinstance(op, top.Concat):
        alike = op.axis % result.rank != result.rank - 2
    else:
        alike = all(one.shape == result.shape for one in operands)
    return _Rows(result.rank - 2, slice(None, None, every)) if every >= 2 and result.rank >= 3 and alike else None


def _with(arrays: Sequence[Array], position: int, array: Array) -> list[Array]:
    return [*arrays[:position], array, *arrays[position + 1 :]]


def choose(
    tuner: Tuner,
    totals: Distances,
    entries: Mapping[str, TensorThreshold],
    floors: Mapping[str, TensorThreshold] | None = None,
) -> dict[str, TensorThreshold]:
    """The entries with tuned thresholds: least distance, for several uses the largest of their choices; none below
    `floors`.
    """
    plan = tuner.net.plan
    best: dict[str, float] = {}
    for (index, position), distances in totals.items():
        slot = plan.outputs[position][1] if index < 0 else plan.steps[index].operands[position]
        name = plan.names[slot]
        thresholds = np.array(tuner.candidates[name].thresholds)
        lowest = 0.0 if floors is None else min(floors[name].threshold, float(thresholds[-1]))
        allowed = np.where(thresholds >= lowest, distances, np.inf)
        threshold = float(thresholds[int(np.argmin(allowed))])
        best[name] = max(best.get(name, 0.0), threshold)
    kept = entries if floors is None else floors
    return {
        name: TensorThreshold(best.get(name, kept[name].threshold), entry.minimum, entry.maximum)
        for name, entry in entries.items()
    }


def total(samples: Iterable[Distances]) -> Distances:
    """The distances, summed in the order of samples."""
    totals: dict[Place, NDArray[np.float64]] = {}
    for sample in samples:
        for place, distances in sample.items():
            totals[place] = totals[place] + distances if place in totals else distances
    return totals
