"""Quantize convolutions and matrix products by the rule of CV18xx: 31-bit multipliers below 1."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import ElementType, LoweringNode, TensorType, Uniform, UniformPerAxis
from tpuc_ops.quant.arithmetic import (
    Rounding,
    decompose_each,
    largest_magnitudes,
    round_quotients,
    round_to_int,
    saturate,
)
from tpuc_ops.quant.casts import parameters

from tpuc_cv18.lowerings.common import MANTISSA_BITS, Array, bf16, decompose_qdm, scales_of

_STEPS = 127.0
_LARGEST, _SMALLEST = 0.999999, 2.0**-31
"""Range of factors that a multiplier with a shift from 0 to 31 represents."""
_LARGE_POINT = 64
"""Zero points from here on are closer to most results than 0 is."""
_BIAS_STEPS = 0x7FFFFFFF * 0.998


@dataclass(frozen=True)
class QdmProduct:
    """int8 filters `[oc, ...]`, int32 bias `[oc]` or None, and the rescaling factor of each output channel."""

    filters: Array
    bias: Array | None
    multipliers: tuple[int, ...]
    right_shifts: tuple[int, ...]


def quantize_qdm(
    filters: Array, bias: Array | None, source: ElementType, result: ElementType, learned: Array | None = None
) -> QdmProduct:
    """Quantize per output channel (the first axis of `filters`); operand and result may have per-channel scales.

    The factor is q = absmax * Sx / (127 * Sy), or larger where the bias needs it, and below 1. Filters and bias are
    divided by q as the multiplier represents it, so that rounding the multiplier causes no error. With trained filter
    scales w (QAT), q is w * Sx / Sy.
    """
    channels = filters.shape[0]
    of_result = np.broadcast_to(scales_of(result), channels)
    scaled = filters.astype(np.float64)
    scaled *= _by_filter(scales_of(source), filters)
    rows = scaled.reshape(channels, -1)
    rows /= of_result[:, None]
    factors = largest_magnitudes(rows) / _STEPS
    if learned is not None and isinstance(source, Uniform):
        factors = learned * source.scale / of_result
    scaled_bias = None if bias is None else bias.reshape(-1).astype(np.float64) / of_result
    if scaled_bias is not None:
        needed = np.abs(scaled_bias) / _BIAS_STEPS
        factors = np.where((needed > factors) & (needed < 1.0), needed, factors)
    multipliers, shifts = decompose_each(np.clip(factors, _SMALLEST, _LARGEST), decompose_qdm)
    exact = np.ldexp(multipliers.astype(np.float64), -MANTISSA_BITS - shifts.astype(np.int32))
    quantized = round_quotients(rows, exact, Rounding.HALF_TO_EVEN, np.int8)
    bias32: Array | None = None
    if scaled_bias is not None:
        bias32 = saturate(round_to_int(scaled_bias / exact, Rounding.HALF_TO_EVEN), np.int32)
    return QdmProduct(
        quantized.reshape(filters.shape),
        bias32,
        tuple(int(value) for value in multipliers),
        tuple(int(value) for value in shifts),
    )


def float_sums(filters: Array, source: ElementType, result: ElementType) -> tuple[Array, tuple[float, ...]]:
    """The filters of `quantize_qdm` for an 8-bit `result`, and the scale of their sums: one bf16 number per output
    channel.
    """
    product = quantize_qdm(filters, None, source, result)
    shifts = np.asarray(product.right_shifts) + MANTISSA_BITS
    units = np.ldexp(np.asarray(product.multipliers, np.float64), -shifts) * scales_of(result)
    return product.filters, tuple(bf16(unit) for unit in units.tolist())


@dataclass(frozen=True)
class StoredFilters:
    """Integer filters of a prequantized network minus their zero points, and their scale, or one scale per output
    channel.
    """

    filters: Array
    scales: Array


def is_stored(node: LoweringNode) -> bool:
    """True when the network stores the filter as integers."""
    types = node.operand_types
    return len(types) > 1 and isinstance(types[1].element, (Uniform, UniformPerAxis))


def stored_filters(node: LoweringNode) -> StoredFilters | None:
    """The prequantized filters, None where the filter is yet to be quantized."""
    filters = node.constants[1]
    if filters is None or not is_stored(node):
        return None
    scales, points = parameters(node.operand_types[1])
    return StoredFilters((filters.astype(np.int64) - points).astype(np.float32), scales.reshape(-1))


def stored_qdm(
    filters: Array,
    scales: Array,
    bias: Array | None,
    source: Uniform,
    result: Uniform,
    taps: int = 1,
    lean: int = 0,
    kind: type[np.signedinteger[Any]] = np.int8,
) -> QdmProduct:
    """Keep prequantized integer filters, with `scales` per output channel or one for all; their sums count `taps` times
    as many elements.

    The factor is the float32 factor that runtimes multiply sums by. The bias removes the contribution of the operand's
    zero point and adds the result's. `lean` is added to each multiplier: with -1, halves round down, with 1 away from
    0.

    Only a channel that exceeds `kind` is requantized, to the full range. Where the result has a zero point, filters are
    multiplied by the largest integer that int8 has room for, which makes the zero point in the bias more precise. Where
    the factor is 1 or more, as for results that clip, filters are multiplied until it is below 1; raises ValueError
    where they have no room for that.
    """
    channels = filters.shape[0]
    whole = filters.reshape(channels, -1).astype(np.int64)
    factors = np.float32(source.scale) * np.asarray(scales, np.float32) / np.float32(result.scale)
    exact = np.broadcast_to(factors.astype(np.float64) / taps, channels)
    largest = np.abs(whole).max(axis=1, initial=0)
    limits = np.iinfo(kind)
    fits = (whole.max(axis=1, initial=0) <= limits.max) & (whole.min(axis=1, initial=0) >= limits.min)
    room = np.maximum(_STEPS // np.maximum(largest, 1), 1.0)
    needed = np.ceil(exact / _LARGEST)
    steps = np.where(fits, 1.0 / (room if result.zero_point else np.maximum(needed, 1.0)), largest / limits.max)
    if ((needed > np.where(fits, room, _LARGEST / steps)) & (largest > 0)).any():
        raise ValueError(
            f"a step of its sums is up to {exact.max():g} steps of the result, too many for its filter; quantize the "
            "network again with a larger range for the result"
        )
    steps = np.minimum(steps, _LARGEST / np.maximum(exact, _SMALLEST))
    multipliers, shifts = decompose_each(np.clip(exact * steps, _SMALLEST, _LARGEST), decompose_qdm)
    stored = saturate(round_to_int(whole / steps[:, None], Rounding.HALF_TO_EVEN), kind)
    shift_by = np.zeros(channels, np.int64)
    if result.zero_point:
        of_one = np.ldexp(multipliers.astype(np.float64), -MANTISSA_BITS - shifts)
        shift_by = round_to_int(result.zero_point / of_one, Rounding.HALF_TO_EVEN)
        if result.zero_point >= _LARGE_POINT:
            # The integer that adds the zero point is slightly off; adjust the factor by the same ratio.
            exactly = np.minimum(result.zero_point / shift_by, _LARGEST)
            multipliers, shifts = decompose_each(exactly, decompose_qdm)
    multipliers = np.minimum(multipliers + lean, (1 << MANTISSA_BITS) - 1)
    sums = np.zeros(channels) if bias is None else bias.reshape(-1).astype(np.float64)
    unit = source.scale * np.broadcast_to(np.asarray(scales, np.float64), channels)
    added = sums / (unit * steps) - stored.astype(np.int64).sum(axis=1) * source.zero_point
    has_bias = bias is not None or source.zero_point or result.zero_point
    return QdmProduct(
        stored.reshape(filters.shape),
        saturate(round_to_int(added, Rounding.HALF_TO_EVEN) + shift_by, np.int32) if has_bias else None,
        tuple(int(value) for value in multipliers),
        tuple(int(value) for value in shifts),
    )


def within_reach(result: TensorType, filters: Array, source: ElementType) -> TensorType:
    """The result with per-channel scales for which the factors of `quantize_qdm` are below 1: a channel with only small
    values may have a scale for which filters would saturate.
    """
    if not isinstance(result.element, UniformPerAxis):
        return result
    scaled = filters.astype(np.float64) * _by_filter(scales_of(source), filters)
    lowest = largest_magnitudes(scaled.reshape(filters.shape[0], -1)) / (_STEPS * _LARGEST)
    scales = np.maximum(scales_of(result.element), lowest)
    return result.with_element(dataclasses.replace(result.element, scales=tuple(scales.tolist())))


def _by_filter(scales: Array, filters: Array) -> Array:
    """Scales of the operand's channels, shaped to multiply the filters: a filter has one channel, or all of them."""
    if scales.size == 1:
        return scales
    axis = 0 if filters.shape[1] == 1 else 1
    return scales.reshape(*(1,) * axis, -1, *(1,) * (filters.ndim - axis - 1))
