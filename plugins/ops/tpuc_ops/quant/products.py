"""Symmetric int8 quantization of convolutions and matrix products with constant filters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tpuc.api import Uniform, UniformPerAxis

from tpuc_ops.arrays import Array
from tpuc_ops.quant.arithmetic import (
    Decomposition,
    Rounding,
    decompose_each,
    decompose_frexp31,
    largest_magnitudes,
    round_quotients,
    round_to_int,
    saturate,
    usable_scales,
)

_FILTER_STEPS = 127.0
"""Steps of signed bytes on each side of 0."""
_NOTHING_LEFT = 2.0**-33
"""A factor below this turns every 32-bit sum into 0."""


@dataclass(frozen=True)
class QuantizedProduct:
    """int8 filters `[oc, ...]`, int32 bias `[oc]` or None, and per output channel the requantization factor and the
    scale of the sums. `floats`: the same factors, for runtimes that multiply in float32; the filters may then be
    int16.
    """

    filters: Array
    bias: Array | None
    multipliers: tuple[int, ...]
    right_shifts: tuple[int, ...]
    scales: Array
    floats: tuple[float, ...] = ()


def quantize_product(
    filters: Array,
    bias: Array | None,
    source: Uniform | UniformPerAxis,
    result: Uniform | UniformPerAxis,
    decompose: Callable[[float], Decomposition] = decompose_frexp31,
    learned: Array | None = None,
) -> QuantizedProduct:
    """Quantize filters per output channel (their first axis).

    Filter scale w = absmax / 127, q = round half away from zero (f / w); bias32 = round(b / (w * Sx) - Zx * sum(q));
    factor w * Sx / Sy as multiplier / 2**shift. A channel whose bias would overflow int32 gets a larger filter scale.
    An operand with scales per channel belongs to a depthwise convolution, and its zero points are 0. `learned`: QAT
    filter scales; with them filters are rounded half to even.
    """
    channels = filters.shape[0]
    of_source, of_result = _scales(source, channels), _scales(result, channels)
    point = source.zero_point if isinstance(source, Uniform) else 0
    rows = filters.reshape(channels, -1)
    rounding = Rounding.HALF_AWAY_FROM_ZERO if learned is None else Rounding.HALF_TO_EVEN
    scales = largest_magnitudes(rows) / _FILTER_STEPS if learned is None else np.broadcast_to(learned, channels)
    scales = usable_scales(scales)
    if bias is not None:
        # Half of int32 leaves room for the sum of products.
        scales = np.maximum(scales, np.abs(bias.astype(np.float64)) / (2.0**30 * of_source))
    quantized = round_quotients(rows, scales, rounding, np.int8)
    shift_of_zero = quantized.sum(axis=1, dtype=np.int64) * point
    bias32: Array | None = None
    if bias is not None or point:
        plain = np.zeros(channels) if bias is None else bias.astype(np.float64) / (scales * of_source)
        bias32 = saturate(round_to_int(plain - shift_of_zero, Rounding.HALF_AWAY_FROM_ZERO), np.int32)
    factors = scales * of_source / of_result
    multipliers, shifts = decompose_each(np.where(factors < _NOTHING_LEFT, 0.0, factors), decompose)
    return QuantizedProduct(
        quantized.reshape(filters.shape),
        bias32,
        tuple(int(value) for value in multipliers),
        tuple(int(value) for value in shifts),
        scales * of_source,
    )


def _scales(element: Uniform | UniformPerAxis, channels: int) -> Array:
    """Return one scale per output channel; several output channels may read one channel of the operand."""
    if isinstance(element, Uniform):
        return np.full(channels, element.scale)
    scales = np.asarray(element.scales, np.float64)
    return np.repeat(scales, channels // len(scales))


def stored_product(
    filters: Array,
    element: Uniform | UniformPerAxis,
    bias: Array | None,
    source: Uniform,
    result: Uniform,
    decompose: Callable[[float], Decomposition] = decompose_frexp31,
) -> QuantizedProduct:
    """Prepare filters that are already integers, with one scale per output channel (their first axis) or one for all.

    Filters and int32 bias are unchanged, except that zero points are subtracted. If that exceeds int8 (an unsigned
    filter with a one-sided range), all filters are stored as int16; their span is at most 256. The factor is the
    float32 by which runtimes multiply the sums; 31 bits represent it exactly.
    """
    channels = filters.shape[0]
    per_axis = isinstance(element, UniformPerAxis)
    scales = np.broadcast_to(np.asarray(element.scales if per_axis else element.scale, np.float64), channels)
    points = np.broadcast_to(np.asarray(element.zero_points if per_axis else element.zero_point, np.int64), channels)
    rows = filters.reshape(channels, -1).astype(np.int64) - points[:, None]
    fits = rows.max(initial=0) <= 127 and rows.min(initial=0) >= -128
    quantized = rows.astype(np.int8 if fits else np.int16)
    bias32: Array | None = None
    if bias is not None or source.zero_point:
        plain = np.zeros(channels) if bias is None else bias.astype(np.float64)
        shift_of_zero = quantized.astype(np.int64).sum(axis=1) * source.zero_point
        bias32 = saturate(round_to_int(plain - shift_of_zero, Rounding.HALF_AWAY_FROM_ZERO), np.int32)
    factors = np.float32(source.scale) * scales.astype(np.float32) / np.float32(result.scale)
    multipliers, shifts = decompose_each(factors.astype(np.float64), decompose)
    return QuantizedProduct(
        quantized.reshape(filters.shape),
        bias32,
        tuple(int(value) for value in multipliers),
        tuple(int(value) for value in shifts),
        scales * source.scale,
        tuple(float(value) for value in factors),
    )
