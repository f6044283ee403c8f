"""Thresholds per channel for values around unary functions, which lookup tables per channel can compute."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from tpuc.api import Calibrated, FusesRelu, Module, Operation, ScalarType, UniformPerAxis, Value
from tpuc.api.evaluation import Array
from tpuc_ops import elementary, top
from tpuc_ops.elementwise import Activation
from tpuc_ops.quant.arithmetic import symmetric_scale, usable_threshold

from tpuc_quantize.simulation.grids import DIVISOR

CHANNEL_THRESHOLDS = "channel_threshold"
"""The section of a calibration table with them: remarks of the form `#channel_threshold name t0 t1 ...`."""

STEPS_PER_OCTAVE = 8
BINS = 16 * STEPS_PER_OCTAVE
"""Number of magnitude bins: 16 octaves below the largest value, twice the range of 8-bit integers."""
_SHIFT = 20  # leaves 3 bits of a float32's mantissa, 8 steps per octave
_I8, _U8 = ScalarType("i8"), ScalarType("u8")


@dataclass(frozen=True)
class ChannelOptions:
    """Search options of thresholds per channel."""

    range_margin: float = 1.3
    """Half of the clipping cost assumes values this much larger, since other data may reach further. Not varied."""
    grid: tuple[float, ...] = tuple(place / 4 for place in range(-24, 3))
    """Octaves above a channel's largest value: quarters, which are 1.5 dB apart, from 1/64 to 1.4."""


OPTIONS = ChannelOptions()
UNSEEN = OPTIONS.range_margin
"""The same value as for tensor thresholds chosen by outputs."""


def eligible(
    module: Module, floats: Collection[str] = (), takes: Callable[[Operation], bool] | None = None
) -> Iterator[Value]:
    """Calibrated images between a convolution and a unary function, or between a function and depthwise convolutions,
    without other readers. None next to an op in `floats`; with `takes` only between operations whose lowerings
    accept scales per channel.
    """
    outputs = set(module.main.outputs)
    for operation in module.main.operations:
        if len(operation.results) != 1 or not isinstance(operation.op, (top.Conv, Activation)):
            continue
        value = operation.result
        users = value.users
        if value in outputs or not users or not isinstance(value.tensor.element, Calibrated):
            continue
        if value.tensor.rank != 4 or not (isinstance(operation.op, Activation) or _is_product(operation)):
            continue
        through = [isinstance(one.op, Activation) for one in (operation, *users)]
        fits = all(isinstance(user.op, Activation) or _is_depthwise(user) for user in users)
        known = takes is None or all(map(takes, (operation, *users)))
        if any(through) and fits and known and not any(one.name in floats for one in (operation, *users)):
            yield value


def _is_product(operation: Operation) -> bool:
    return isinstance(operation.op, top.Conv) and operation.operands[1].is_constant


def _is_depthwise(operation: Operation) -> bool:
    return _is_product(operation) and operation.op.__dict__["group"] == operation.operands[0].tensor.dims[1]


def channel_elements(
    values: Iterator[Value], thresholds: Mapping[str, Array], divisor: int = DIVISOR
) -> dict[str, UniformPerAxis]:
    """The stored element types of the values with thresholds per channel, by name."""
    result: dict[str, UniformPerAxis] = {}
    for value in values:
        found, element = thresholds.get(value.name), value.tensor.element
        if found is None or not isinstance(element, Calibrated):
            continue
        signed = element.minimum < 0
        limit = _limit(value)
        scales = tuple(symmetric_scale(min(usable_threshold(float(t)), limit), signed, divisor) for t in found)
        result[value.name] = UniformPerAxis(_I8 if signed else _U8, element.expressed, 1, scales, (0,) * len(scales))
    return result


def _limit(value: Value) -> float:
    """The limit of a relu fused into the producer."""
    fields = value.defining.op.__dict__ if value.defining is not None else {}
    fused = value.defining is not None and isinstance(value.defining.op, FusesRelu)
    return fields["relu_limit"] if fused and fields["do_relu"] and fields["relu_limit"] > 0 else np.inf


def bin_costs(value: Array, gradient: Array, limit: float) -> Array:
    """Squared gradients of an image, summed per channel and magnitude bin: `[channels, BINS]`.

    Bins are eighths of octaves; the last one ends above `limit`, the first holds everything smaller.
    """
    channels = value.shape[1]
    places = np.abs(value, dtype=np.float32).view(np.int32) >> _SHIFT
    np.clip(places - first_bin(limit), 0, BINS - 1, out=places)
    places += (np.arange(channels, dtype=np.int32) * BINS).reshape(1, -1, 1, 1)
    flat = gradient.reshape(-1)
    sums = np.bincount(places.reshape(-1), weights=flat * flat, minlength=channels * BINS)
    return sums.reshape(channels, BINS).astype(np.float32)


def first_bin(limit: float, shift: int = _SHIFT, bins: int = BINS) -> int:
    """The first bin of magnitudes; the last one contains `limit`."""
    return int(np.float32(limit).view(np.int32) >> shift) - bins + 1


def choose_channels(costs: Array, limit: float, threshold: float, *, signed: bool, headroom: float = UNSEEN) -> Array:
    """The thresholds of a value's channels that cost the outputs least, by `bin_costs` summed over samples.

    `threshold` is the tensor's, kept for channels without values; half of the clipping cost assumes values `headroom`
    times larger.
    """
    edges = (np.arange(BINS + 1, dtype=np.int32) + first_bin(limit) << _SHIFT).view(np.float32).astype(np.float64)
    centers = (edges[:-1] + edges[1:]) / 2
    upper = np.where(costs > 0, edges[1:], 0.0).max(axis=1)
    best, lowest = np.full(len(costs), threshold), np.full(len(costs), np.inf)
    least = threshold / (2 * DIVISOR)  # a channel that is lower is nothing on the tensor's grid
    for part in elementary.power(2.0, np.array(OPTIONS.grid)):
        candidate = np.maximum(upper * part, least)[:, None]
        step = candidate / (127 if signed else 255)
        found = (costs * np.where(centers < step / 2, centers**2, step**2 / 12)).sum(axis=1)
        for reach in (1.0, headroom):
            found += (costs * np.maximum(centers * reach - candidate, 0.0) ** 2).sum(axis=1) / 2
        better = (found < lowest) & (upper > 0)
        best[better], lowest[better] = candidate[better, 0], found[better]
    return best
