"""Quantised convolutions and products by the rule of cv18xx: 31-bit multipliers below 1 (SPEC 3.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import Uniform
from tpuc_ops.quant.arithmetic import Rounding, decompose_each, decompose_frexp31, round_to_int, saturate

from tpuc_cv183x.lowerings.common import MANTISSA_BITS, Array

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


def quantise_qdm(filters: Array, bias: Array | None, source: Uniform, result: Uniform) -> QdmProduct:
    """Quantise per output channel (the first axis of `filters`).

    Factor q = absmax * Sx / (127 * Sy), more where the bias needs it, below 1; filters and bias are divided by q as the
    multiplier says it, so that its rounding does no harm.
    """
    channels = filters.shape[0]
    rows = filters.reshape(channels, -1).astype(np.float64) * (source.scale / result.scale)
    factors = np.abs(rows).max(axis=1, initial=0.0) / _STEPS
    scaled_bias = None if bias is None else bias.reshape(-1).astype(np.float64) / result.scale
    if scaled_bias is not None:
        needed = np.abs(scaled_bias) / _BIAS_STEPS
        factors = np.where((needed > factors) & (needed < 1.0), needed, factors)
    multipliers, shifts = decompose_each(np.clip(factors, _SMALLEST, _LARGEST), decompose_frexp31)
    exact = np.ldexp(multipliers.astype(np.float64), -shifts.astype(np.int32))
    quantised = saturate(round_to_int(rows / exact[:, None], Rounding.HALF_TO_EVEN), np.int8)
    bias32: Array | None = None
    if scaled_bias is not None:
        bias32 = saturate(round_to_int(scaled_bias / exact, Rounding.HALF_TO_EVEN), np.int32)
    return QdmProduct(
        quantised.reshape(filters.shape),
        bias32,
        tuple(int(value) for value in multipliers),
        tuple(int(value) - MANTISSA_BITS for value in shifts),
    )
