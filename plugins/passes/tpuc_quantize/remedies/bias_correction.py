"""Estimate the mean error per channel of int8 products, for biases to correct."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from tpuc.api import FusesRelu, Module, Op
from tpuc.api.evaluation import ABSENT_SLOT, Array, Step
from tpuc_driver.api.host import Pool
from tpuc_ops import top
from tpuc_ops.convolution import pad_images
from tpuc_ops.window import Window, pair
from tpuc_optimize.channel_links import constant, set_constant

from tpuc_quantize.simulation.network import FakeNetwork, State

SHIFTS = "bias_shift"
"""The section of a calibration table with bias shifts: remarks of the form `#bias_shift op_name v0 v1 ...`."""
NO_LOSS = 1e-6
"""Float32 rounding relative to the largest mean of a product's channels: smaller differences are no filter errors."""
_ROW_ELEMENTS = 1 << 14
"""Elements of filter-row products held in float64 at a time, so that they stay in the cache."""
_Watch = Callable[[Iterable[Any], str, int], Iterable[Any]]


@dataclass(frozen=True)
class ProductMeans:
    """Means of a product's float results on one sample, per channel and without relu, and the change caused by rounding
    the filters alone.
    """

    result: Array
    lost: Array


def product_means(net: FakeNetwork, index: int, state: State) -> ProductMeans | None:
    """The means of a step's product, before the step of a float run; None unless it is an integer product with a
    bias.
    """
    if not _is_corrected(net, index):
        return None
    return _means(net, index, net.operands(index, state, integer=False)[:3])


def _means(net: FakeNetwork, index: int, operands: Sequence[Array]) -> ProductMeans:
    x, filters, bias = operands
    result, lost = _mean_products(net.plan.steps[index], x, (filters, filters - net.filters(index)))
    return ProductMeans(result + _added(bias), lost)


class MeansWatcher:
    """Computes the means of products while the values of a float run arrive, calibrated or not; `finds` none where a
    product reads an unnamed value.
    """

    def __init__(self, net: FakeNetwork) -> None:
        self._net = net
        self._readers: dict[str, list[int]] = {}
        products = [index for index in range(len(net.plan.steps)) if _has_bias(net, index)]
        computed = {slot for step in net.plan.steps for slot in step.results} & net.plan.names.keys()
        self.finds = all(net.plan.steps[index].operands[0] in computed for index in products)
        for index in products if self.finds else ():
            self._readers.setdefault(net.plan.names[net.plan.steps[index].operands[0]], []).append(index)

    def see(self, name: str, x: Array, found: dict[str, ProductMeans]) -> None:
        """Add the means of the products that read this value to those `found` in the same run."""
        for index in self._readers.get(name, ()):
            step = self._net.plan.steps[index]
            filters, bias = (self._net.constant(slot) for slot in step.operands[1:3])
            assert filters is not None
            operands = (x, filters, np.zeros((0,), np.float32) if bias is None else bias)
            found[step.operation.name] = _means(self._net, index, operands)


def observe(net: FakeNetwork, sample: Mapping[str, Array]) -> dict[str, ProductMeans]:
    """The means of all products of a float run, by op name."""
    found: dict[str, ProductMeans] = {}

    def see(index: int, state: State) -> None:
        means = product_means(net, index, state)
        if means is not None:
            found[net.plan.steps[index].operation.name] = means

    net.run(sample, integer=False, on_step=see)
    return found


def filter_shifts(observed: Sequence[Mapping[str, ProductMeans]]) -> dict[str, Array]:
    """The mean change of products, over samples, that is caused by rounding the filters alone."""
    found = {name: _mean([one[name].lost for one in observed]) for name in observed[0]} if observed else {}
    least = {name: NO_LOSS * np.abs([one[name].result for one in observed]).max(initial=0.0) for name in found}
    return {name: np.where(np.abs(one) > least[name], one, 0.0).astype(np.float32) for name, one in found.items()}


def find_shifts(
    net: FakeNetwork,
    samples: Sequence[Mapping[str, Array]],
    observed: Sequence[Mapping[str, ProductMeans]],
    pool: Pool,
    watch: _Watch,
) -> dict[str, Array]:
    """Layer by layer: float minus int8, averaged over samples and positions, before the relu.

    Later layers see the corrected results of earlier ones. `observed` are the float means of these samples.
    """
    states = net.start_all(samples)
    shifts: dict[str, Array] = {}
    for index, step in watch(list(enumerate(net.plan.steps)), "correcting biases", len(net.plan.steps)):
        if _is_corrected(net, index):
            name = step.operation.name
            means = functools.partial(_integer_means, net, index)
            every = [mean for some in pool.here(means, states) for mean in some]
            left = _mean([one[name].result for one in observed]) - _mean(every)
            shifts[name] = left.astype(np.float32)
            net.shift_bias(index, shifts[name])
        net.run_batches([index], states, pool, integer=True)
    return shifts


def _is_corrected(net: FakeNetwork, index: int) -> bool:
    return net.can_be_integer(net.plan.steps[index]) and _has_bias(net, index)


def corrected_ops(net: FakeNetwork) -> frozenset[str]:
    """The names of the products whose biases are corrected."""
    steps = net.plan.steps
    return frozenset(step.operation.name for index, step in enumerate(steps) if _is_corrected(net, index))


def _has_bias(net: FakeNetwork, index: int) -> bool:
    """True if it has a constant bias, or an operand slot for one."""
    step = net.plan.steps[index]
    if not net.is_product(index) or len(step.operands) < 3:
        return False
    return step.operands[2] == ABSENT_SLOT or step.operands[2] in net.constants


def _integer_means(net: FakeNetwork, index: int, state: State) -> list[Array]:
    """The means of each sample with integers."""
    step = net.plan.steps[index]
    x, filters, bias = net.operands(index, state, integer=True)[:3]
    samples = [x] * state.count if step.operands[0] in net.constants else np.split(x, state.count)
    return [_mean_products(step, one, (filters,))[0] + _added(bias) for one in samples]


def _mean(arrays: Sequence[Array]) -> Array:
    return np.asarray(np.mean(arrays, axis=0, dtype=np.float64))


def _added(bias: Array) -> Array | float:
    return bias.reshape(-1).astype(np.float64) if bias.size else 0.0


def _mean_products(step: Step, x: Array, filters: Sequence[Array]) -> list[Array]:
    """The means per channel of products with each of these filters, without bias and relu."""
    op = step.operation.op
    if isinstance(op, top.Conv) and x.ndim == filters[0].ndim == 4 and not op.inserts:
        # The mean over places is the product with the mean of what every tap reads.
        means = _tap_means(pad_images(x, op.window().pads), op.window(), pair(op.window().output(x.shape[2:])))
        row = means.reshape(op.group, 1, -1)
        grouped = [one.reshape(op.group, one.shape[0] // op.group, -1) for one in filters]
        return [_row_products(one, row).reshape(-1) for one in grouped]
    none = np.zeros((0,), np.float32)
    results = [_without_relu(op).evaluate(step.node, [x, one, none])[0] for one in filters]
    return [_per_channel(one, op) for one in results]


def _row_products(filters: Array, row: Array) -> Array:
    """The product of each filter in `[group, filters, taps]` with its group's row, in float64. numpy's sums have the
    same order on every processor; those of BLAS do not.
    """
    result = np.empty(filters.shape[:2])
    rows = max(_ROW_ELEMENTS // (len(filters) * filters.shape[2]), 1)
    for first in range(0, filters.shape[1], rows):
        some = slice(first, first + rows)
        np.multiply(filters[:, some], row, dtype=np.float64).sum(axis=-1, out=result[:, some])
    return result


def _tap_means(padded: Array, window: Window, size: tuple[int, int]) -> Array:
    """`padded: [n, c, h, w]` to `[c, kh, kw]`: the mean input of each filter tap over images and positions."""
    (oh, ow), (sh, sw), (dh, dw) = size, window.strides, window.dilations
    means = np.empty((padded.shape[1], *window.kernel))
    for j in range(window.kernel[1]):
        columns = slice(j * dw, j * dw + (ow - 1) * sw + 1, sw)
        # A row's error is a float's, far below that of int8.
        rows_means = padded[:, :, :, columns].mean(axis=-1).mean(axis=0, dtype=np.float64)
        for i in range(window.kernel[0]):
            means[:, i, j] = rows_means[:, i * dh : i * dh + (oh - 1) * sh + 1 : sh].mean(axis=1)
    return means


def _per_channel(array: Array, op: Op) -> Array:
    rows = np.moveaxis(array, -1 if isinstance(op, top.MatMul) else 1, 0)
    return rows.reshape(rows.shape[0], -1).mean(axis=1, dtype=np.float64)


def _without_relu(op: Op) -> Op:
    if not isinstance(op, FusesRelu):
        return op
    return cast("Op", dataclasses.replace(op, do_relu=False))  # pyright: ignore[reportArgumentType]  # op definitions are dataclasses


def apply_shifts(module: Module, shifts: Mapping[str, Array], floats: Iterable[str] = ()) -> bool:
    """Add the shifts to the biases of the named ops, except those in `floats`; returns True if there were any."""
    left_out = frozenset(floats)
    changed = False
    for operation in list(module.main.operations):
        shift = shifts.get(operation.name)
        if shift is None or operation.name in left_out or len(operation.operands) < 3:
            continue
        bias = constant(module, operation, 2)
        set_constant(module, operation, 2, shift if bias is None else (bias.reshape(-1) + shift).reshape(bias.shape))
        changed = True
    return changed
