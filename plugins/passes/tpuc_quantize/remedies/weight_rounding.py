"""Round weights one by one; later ones compensate for earlier errors (optimal brain compression).

The operand rows of a product on a few samples determine the cost of filter errors: with their second moments `H`, an
error `e` of one filter costs `e @ H @ e`. After each weight is rounded, its error is distributed over the weights not
yet rounded so that the cost is minimal (the closed form of optimal brain compression).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import Pool
from tpuc_ops import top
from tpuc_ops.convolution import pad_images
from tpuc_ops.factorization import matmul, root_of_inverse
from tpuc_ops.window import pair

from tpuc_quantize.simulation.grids import FILTER_STEPS, filter_scales, stored_filters
from tpuc_quantize.simulation.network import FakeNetwork, Filters, State

Floats = NDArray[np.float64]
Rows = Mapping[int, Array]
"""By step: `[groups, rows, weights of a filter]`."""


@dataclass(frozen=True)
class RoundingOptions:
    """Sample limits and required gain of a fit. Decision 0027 has gains of seven networks with these numbers."""

    most_weights: int = 1024
    """Largest filter: the work grows with the cube, 0.4 s of processor time for 512 weights, 5 s for 1,024."""
    most_rows: int = 128
    """Operand rows per sample. Sixteen samples give 2,048, two per weight of the largest filter."""
    most_elements: int = 1 << 15
    """Elements of these rows, which all products of a network keep at once: 128 KiB each per sample."""
    damping: float = 0.05
    """Added to the diagonal of the moments, relative to its mean, since few rows leave directions unseen. Not varied;
    GPTQ adds 0.01, with about 100 times as many rows.
    """
    block: int = 32
    """Errors are passed on in blocks of this many weights by one product; this only saves time."""
    least_gain: float = 0.05
    """Required gain on samples that the fit does not use; products gained 0.6 to 14 dB, 0 changes independent ones."""


OPTIONS = RoundingOptions()


def find_rounding(
    net: FakeNetwork, samples: Sequence[Mapping[str, Array]], pool: Pool, steps: float = FILTER_STEPS
) -> Filters:
    """The filter integers by step, up to `steps` steps from the nearest, for products that gain by them: fitted on
    every other sample, evaluated on the others.
    """
    seen = list(pool.here(functools.partial(_rows, net), list(enumerate(samples))))
    products = [index for index in range(len(net.plan.steps)) if len(seen) > 1 and index in seen[0]]
    found = pool.here(lambda index: _rounded(net, index, [one[index] for one in seen], steps), products)
    return {index: filters for index, filters in zip(products, found, strict=True) if filters is not None}


def _rows(net: FakeNetwork, numbered: tuple[int, Mapping[str, Array]]) -> Rows:
    """The rows that the products of a float run read."""
    number, sample = numbered
    result: dict[int, Array] = {}

    def see(index: int, state: State) -> None:
        if net.is_product(index):
            x, filters = net.operands(index, state, integer=False)[:2]
            if (found := _rows_of(net.plan.steps[index].operation.op, x, filters, number)) is not None:
                result[index] = found

    net.run(sample, integer=False, on_step=see)
    return result


def _rows_of(op: object, x: Array, filters: Array, number: int) -> Array | None:
    """Some rows of a product's operand, different ones for every sample."""
    if isinstance(op, top.MatMul):
        if filters.ndim != 2 or op.left_transpose or filters.size < 1 or x.shape[-1] > OPTIONS.most_weights:
            return None
        rows = x.reshape(-1, x.shape[-1])
        return rows[_some(len(rows), OPTIONS.most_elements // x.shape[-1], number)][None]
    if not isinstance(op, top.Conv) or op.inserts or not x.ndim == filters.ndim == 4:
        return None
    group, weights = op.group, filters[0].size
    if weights > OPTIONS.most_weights:
        return None
    window, padded = op.window(), pad_images(x, op.window().pads)[0]
    height, width = pair(window.output(x.shape[2:]))
    places = _some(height * width, OPTIONS.most_elements // (group * weights), number)
    (sh, sw), (dh, dw) = window.strides, window.dilations
    top_rows, left = places // width * sh, places % width * sw
    taps = [padded[:, top_rows + i * dh, left + j * dw] for i, j in np.ndindex(*filters.shape[2:])]
    columns = np.stack(taps, axis=1).reshape(group, weights, len(places))
    return columns.transpose(0, 2, 1)


def _some(count: int, most: int, number: int) -> NDArray[np.intp]:
    """That many of `count` places, evenly spread; the first one differs from sample to sample."""
    chosen = min(count, OPTIONS.most_rows, max(most, 1))
    return (np.arange(chosen) * count // chosen + number * 7) % count


def _rounded(net: FakeNetwork, index: int, seen: Sequence[Array], steps: float) -> tuple[Array, Array] | None:
    """The filters of a product, and their scales."""
    op = net.plan.steps[index].operation.op
    filters = net.constant(net.plan.steps[index].operands[1])
    assert filters is not None
    scales = filter_scales(op, filters) * (FILTER_STEPS / steps)
    grouped = _Grouped.of(op, filters, scales)
    first, second = (_moments(seen[start::2]) for start in (0, 1))
    nearest = np.clip(np.rint(grouped.weights), -steps, steps)
    before, after = (grouped.cost(one, second) for one in (nearest, grouped.fitted(first, steps)))
    if not after < before * (1.0 - OPTIONS.least_gain):
        return None
    integers = grouped.fitted(first + second, steps)
    return grouped.shaped(op, integers, filters).astype(np.int8), scales.astype(np.float32)


def _moments(rows: Sequence[Array]) -> Floats:
    """The second moments, `[groups, weights, weights]`."""
    every = np.concatenate(rows, axis=1).astype(np.float64)
    return matmul(every.transpose(0, 2, 1), every) / every.shape[1]


@dataclass(frozen=True)
class _Grouped:
    """Filters in units of their quantization step, `[groups, filters, weights]`, and the steps."""

    weights: Floats
    scales: Floats

    @classmethod
    def of(cls, op: object, filters: Array, scales: Array) -> _Grouped:
        every = np.broadcast_to(scales, filters.shape)
        weights, whole = (_by_group(op, one.astype(np.float64)) for one in (filters, every))
        return cls(weights / whole, whole[:, :, :1])

    def cost(self, integers: Floats, moments: Floats) -> float:
        """The mean squared error of the results, summed over the filters."""
        errors = (self.weights - integers) * self.scales
        return float((matmul(errors, moments) * errors).sum())

    def fitted(self, moments: Floats, steps: float) -> Floats:
        """Round weights one by one, those with the largest moments first. The largest weights of a filter, which define
        its scale, stay at the end of the grid.
        """
        powers = moments.diagonal(axis1=1, axis2=2)
        order = np.argsort(-powers, axis=1, kind="stable")
        damped = moments + _diagonal(OPTIONS.damping * powers.mean(axis=1) + 1e-30, moments.shape[1])
        sorted_ = np.take_along_axis(np.take_along_axis(damped, order[:, :, None], 1), order[:, None, :], 2)
        upper = root_of_inverse(sorted_)
        left = np.take_along_axis(self.weights, order[:, None, :], 2)
        fixed = np.abs(left) >= steps * (1 - 1e-6)
        result, errors = np.empty_like(left), np.empty_like(left)
        for begin in range(0, left.shape[2], OPTIONS.block):
            block = slice(begin, begin + OPTIONS.block)
            for place in range(*block.indices(left.shape[2])):
                column = left[:, :, place]
                whole = np.clip(np.rint(column), -steps, steps)
                result[:, :, place] = np.where(fixed[:, :, place], np.copysign(steps, column), whole)
                error = errors[:, :, place] = (column - result[:, :, place]) / upper[:, place, place, None]
                left[:, :, place : block.stop] -= error[:, :, None] * upper[:, None, place, place : block.stop]
            left[:, :, block.stop :] -= matmul(errors[:, :, block], upper[:, block, block.stop :])
        back = np.argsort(order, axis=1, kind="stable")
        return np.take_along_axis(result, back[:, None, :], 2)

    def shaped(self, op: object, integers: Floats, filters: Array) -> Array:
        """The filters in the shape of the operand."""
        if isinstance(op, top.MatMul):
            return integers[0] if op.right_transpose else np.ascontiguousarray(integers[0].T)
        return integers.reshape(filters.shape)


def _by_group(op: object, filters: Floats) -> Floats:
    if isinstance(op, top.MatMul):
        return (filters if op.right_transpose else filters.T)[None]
    assert isinstance(op, top.Conv)
    return filters.reshape(op.group, filters.shape[0] // op.group, -1)


def _diagonal(values: Floats, size: int) -> Floats:
    return values[:, None, None] * np.eye(size)


def changes_of(net: FakeNetwork, filters: Filters) -> dict[str, Array]:
    """The differences of the integers from the nearest ones, by op name."""
    result: dict[str, Array] = {}
    for index, (integers, _) in filters.items():
        operation, array = net.plan.steps[index].operation, net.constant(net.plan.steps[index].operands[1])
        assert array is not None
        result[operation.name] = integers - stored_filters(operation.op, array)[0]
    return result


def changed_filters(op: object, filters: Array, change: Array) -> tuple[Array, Array]:
    """The nearest filter integers plus the result of `changes_of`, and their scales."""
    integers, scales = stored_filters(op, filters)
    return integers + change.astype(np.int8).reshape(integers.shape), scales
