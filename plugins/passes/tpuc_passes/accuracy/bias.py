"""The mean error that int8 leaves in the results of products, per channel, and how biases take it out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from tpuc.api import FusesRelu, Module, Op
from tpuc.api.host import Array, Step
from tpuc_ops.convolution import pad_images
from tpuc_ops.top.conv import Conv
from tpuc_ops.top.matmul import MatMul

from tpuc_passes.accuracy.network import FakeNetwork
from tpuc_passes.accuracy.rescale import constant, set_constant

SHIFTS = "bias_shift"
"""The section of a calibration table that holds them: remarks of the form `#bias_shift op_name v0 v1 ...`."""
_Watch = Callable[[Iterable[Any], str, int], Iterable[Any]]


def find_shifts(net: FakeNetwork, samples: Sequence[Mapping[str, Array]], watch: _Watch) -> dict[str, Array]:
    """Layer after layer: float minus int8, averaged over samples and places, before the relu.

    Later layers see what earlier ones have been corrected to.
    """
    exact, rounded = ([net.start(sample) for sample in samples] for _ in range(2))
    both = [*((one, False) for one in exact), *((one, True) for one in rounded)]
    shifts: dict[str, Array] = {}
    for index, step in watch(list(enumerate(net.plan.steps)), "correcting biases", len(net.plan.steps)):
        if net.is_product(index) and net.can_be_integer(step) and len(step.operands) > 2:
            plain = _without_relu(step.operation.op)
            sums = [
                np.asarray(plain.evaluate(step.node, net.operands(index, state, integer=integer))[0])
                for state, integer in both
            ]
            means = [_per_channel(one, step.operation.op) for one in sums]
            shift = np.asarray(np.mean(np.subtract(means[: len(exact)], means[len(exact) :]), axis=0), np.float32)
            shifts[step.operation.name] = shift
            net.shift_bias(index, shift)
            for (state, integer), one in zip(both, sums, strict=True):
                added = one + _along_channels(shift, one, step.operation.op) if integer else one
                net.store(index, state, [_activated(step.operation.op, added)], integer=integer)
        else:
            for state, integer in both:
                net.run_step(index, state, integer=integer)
        for state, _ in both:
            for slot in step.frees:
                state.values[slot] = None
    return shifts


def find_filter_shifts(net: FakeNetwork, samples: Sequence[Mapping[str, Array]], watch: _Watch) -> dict[str, Array]:
    """What rounding the filters alone takes from the results of products on float operands, in the mean."""
    sums: dict[str, Array] = {}
    for sample in watch(samples, "rounding filters", len(samples)):
        state = net.start(sample)
        for index, step in enumerate(net.plan.steps):
            if net.is_product(index) and net.can_be_integer(step) and len(step.operands) > 2:
                operands = net.operands(index, state, integer=False)
                error = _mean_product(step, operands[0], operands[1] - net.filters(index))
                name = step.operation.name
                sums[name] = sums[name] + error if name in sums else error
            net.run_step(index, state, integer=False)
            for slot in step.frees:
                state.values[slot] = None
    return {name: (total / len(samples)).astype(np.float32) for name, total in sums.items()}


def _mean_product(step: Step, x: Array, filters: Array) -> Array:
    """The mean per channel of a product without bias and relu."""
    op = step.operation.op
    if isinstance(op, Conv) and x.ndim == filters.ndim == 4 and not op.inserts:
        # The mean over places is the product with the mean of what every tap reads.
        window = op.window()
        padded, (oh, ow) = pad_images(x, window.pads), window.output(x.shape[2:])
        (sh, sw), (dh, dw) = window.strides, window.dilations
        means = np.empty((x.shape[1], *window.kernel))
        for i, j in np.ndindex(*window.kernel):
            rows = slice(i * dh, i * dh + (oh - 1) * sh + 1, sh)
            columns = slice(j * dw, j * dw + (ow - 1) * sw + 1, sw)
            means[:, i, j] = padded[:, :, rows, columns].mean(axis=(0, 2, 3), dtype=np.float64)
        grouped = filters.reshape(op.group, filters.shape[0] // op.group, -1).astype(np.float64)
        return (grouped @ means.reshape(op.group, -1, 1)).reshape(-1)
    lost = [x, filters, np.zeros((0,), np.float32)]
    return _per_channel(_without_relu(op).evaluate(step.node, lost)[0], op)


def _per_channel(array: Array, op: Op) -> Array:
    rows = np.moveaxis(array, -1 if isinstance(op, MatMul) else 1, 0)
    return rows.reshape(rows.shape[0], -1).mean(axis=1, dtype=np.float64)


def _along_channels(shift: Array, array: Array, op: Op) -> Array:
    return shift if isinstance(op, MatMul) else shift.reshape(-1, *(1,) * (array.ndim - 2))


def _activated(op: Op, array: Array) -> Array:
    """With the relu that `op` has."""
    fields = op.__dict__
    if not isinstance(op, FusesRelu) or not fields["do_relu"]:
        return array
    return np.clip(array, 0, fields["relu_limit"] if fields["relu_limit"] > 0 else None)


def _without_relu(op: Op) -> Op:
    if not isinstance(op, FusesRelu):
        return op
    return cast("Op", dataclasses.replace(op, do_relu=False))  # pyright: ignore[reportArgumentType]  # op definitions are dataclasses


def apply_shifts(module: Module, shifts: Mapping[str, Array], floats: Iterable[str] = ()) -> bool:
    """Add the shifts to the biases of the named ops, except those in `floats`; returns whether there were any."""
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
