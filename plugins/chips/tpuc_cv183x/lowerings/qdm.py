"""Quantised convolutions and products by the rule of cv18xx: 31-bit multipliers below 1 (SPEC 3.3)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from tpuc.api import ElementType, TensorType, UniformPerAxis
from tpuc_ops.quant.arithmetic import (
    Rounding,
    decompose_each,
    largest_magnitudes,
    round_quotients,
    round_to_int,
    saturate,
)

from tpuc_cv183x.lowerings.common import MANTISSA_BITS, Array, decompose_qdm, scales_of

_STEPS = 127.0
_LARGEST, _SMALLEST = 0.999999, 2.0**-31
"""What a multiplier with a shift from 0 to 31 can say."""
_BIAS_STEPS = 0x7FFFFFFF * 0.998


@dataclass(frozen=True)
class QdmProduct:
    """int8 filters `[oc, ...]`, int32 bias `[oc]` or None, and the factor to the output's scale per output channel."""

    filters: Array
    bias: Array | None
    multipliers: tuple[int, ...]
    right_shifts: tuple[int, ...]


def quantise_qdm(filters: Array, bias: Array | None, source: ElementType, result: ElementType) -> QdmProduct:
    """Quantise per output channel (the first axis of `filters`); operand and result may have a scale per channel.

    Factor q = absmax * Sx / (127 * Sy), more where the bias needs it, below 1; filters and bias are divided by q as the
    multiplier says it, so that its rounding does no harm.
    """
    channels = filters.shape[0]
    of_result = np.broadcast_to(scales_of(result), channels)
    scaled = filters.astype(np.float64)
    scaled *= _by_filter(scales_of(source), filters)
    rows = scaled.reshape(channels, -1)
    rows /= of_result[:, None]
    factors = largest_magnitudes(rows) / _STEPS
    scaled_bias = None if bias is None else bias.reshape(-1).astype(np.float64) / of_result
    if scaled_bias is not None:
        needed = np.abs(scaled_bias) / _BIAS_STEPS
        factors = np.where((needed > factors) & (needed < 1.0), needed, factors)
    multipliers, shifts = decompose_each(np.clip(factors, _SMALLEST, _LARGEST), decompose_qdm)
    exact = np.ldexp(multipliers.astype(np.float64), -MANTISSA_BITS - shifts.astype(np.int32))
    quantised = round_quotients(rows, exact, Rounding.HALF_TO_EVEN, np.int8)
    bias32: Array | None = None
    if scaled_bias is not None:
        bias32 = saturate(round_to_int(scaled_bias / exact, Rounding.HALF_TO_EVEN), np.int32)
    return QdmProduct(
        quantised.reshape(filters.shape),
        bias32,
        tuple(int(value) for value in multipliers),
        tuple(int(value) for value in shifts),
    )


def within_reach(result: TensorType, filters: Array, source: ElementType) -> TensorType:
    """The result with scales per channel for which the factors of `quantise_qdm` are below 1: a channel whose values
    were all small may have one that filters would have to be cut off for.
    """
    if not isinstance(result.element, UniformPerAxis):
        return result
    scaled = filters.astype(np.float64) * _by_filter(scales_of(source), filters)
    lowest = largest_magnitudes(scaled.reshape(filters.shape[0], -1)) / (_STEPS * _LARGEST)
    scales = np.maximum(scales_of(result.element), lowest)
    return result.with_element(dataclasses.replace(result.element, scales=tuple(scales.tolist())))


def _by_filter(scales: Array, filters: Array) -> Array:
    """Of the operand's channels, to be multiplied with: a filter has one channel of its own, or sees all of them."""
    if scales.size == 1:
        return scales
    axis = 0 if filters.shape[1] == 1 else 1
    return scales.reshape(*(1,) * axis, -1, *(1,) * (filters.ndim - axis - 1))
