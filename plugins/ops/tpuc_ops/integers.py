"""Stored integers: exact products, requantisation by attribute, and clamps in the result's own scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tpuc.api import TensorType, Uniform

from tpuc_ops.arrays import Array, dtype_of
from tpuc_ops.quant.arithmetic import Rounding, quantise_float, requantise, requantise_qdm, saturate, shift_right


def zero_point(type: TensorType) -> int:
    """The integer that means 0; plain integers have 0."""
    return type.element.zero_point if isinstance(type.element, Uniform) else 0


def is_integer(type: TensorType) -> bool:
    """Are integers stored?"""
    return not type.storage.is_float


def requantised(
    acc: Array, multipliers: Sequence[int], shifts: Sequence[int], mode: str, rounding: str, type: TensorType
) -> Array:
    """int32 sums `[n, c, ...]` in the scale of `type`: zero point added, saturated to its storage.

    One multiplier and shift for all channels, or one per channel. `mode`: MultiplierShift rounds
    ``acc * multiplier / 2**shift`` once by `rounding`; OnlyShift has multiplier 1; QDM and TFLite round
    ``acc * multiplier / 2**31`` half up to int32, then the shift by `rounding`.
    """
    count = acc.shape[1]
    if mode == "OnlyShift":
        multipliers = (1,) * len(shifts)
    if not len(multipliers) == len(shifts) or len(shifts) not in (1, count):
        raise ValueError(f"{len(multipliers)} multipliers and {len(shifts)} shifts do not fit {count} channels")
    shape = (1, -1, *(1,) * (acc.ndim - 2))
    factor, shift = (np.asarray(values, np.int64).reshape(shape) for values in (multipliers, shifts))
    scaled = _scale(mode)
    return scaled(acc, factor, shift, zero_point(type), Rounding(rounding), dtype_of(type.storage))


def _scale(mode: str) -> Callable[..., Array]:
    match mode:
        case "MultiplierShift" | "OnlyShift":
            return requantise
        case "QDM" | "TFLite":
            return requantise_qdm
        case _:
            raise ValueError(f"quant_mode must be MultiplierShift, OnlyShift, QDM or TFLite, this one is {mode}")


def clamped(x: Array, type: TensorType, do_relu: bool, limit: float) -> Array:
    """Integers within the bounds of `type`, and within those of a relu when there is one, as `type` stores them.

    A relu is ``max(x, zero point)``; a positive `limit` is ``round(limit / scale) + zero point``, half away from zero.
    """
    dtype = dtype_of(type.storage)
    low, high = type.element.bounds if isinstance(type.element, Uniform) else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if do_relu:
        low = max(low, zero_point(type))
        if limit > 0:
            scale = type.uniform.scale
            top = quantise_float(limit, scale, zero_point(type), Rounding.HALF_AWAY_FROM_ZERO, dtype)
            high = min(high, int(top))
    return saturate(np.clip(x, low, high), dtype)


def scaled_terms(
    operands: Sequence[Array],
    types: Sequence[TensorType],
    multipliers: Sequence[int],
    shifts: Sequence[int],
    signs: Sequence[int] = (),
) -> list[Array]:
    """What the operands of a sum contribute in the result's scale, zero points taken off, times `signs`.

    Each ``half_up((q - zp) * multiplier / 2**shift)``, saturated to int16. A single shift for several operands divides
    their sum instead, which is then the only term.
    """
    signs = signs or (1,) * len(operands)
    products = [
        (x.astype(np.int64) - zero_point(type)) * multiplier
        for x, type, multiplier in zip(operands, types, multipliers, strict=True)
    ]
    if len(shifts) == 1 < len(operands):
        total = sum((product * sign for product, sign in zip(products, signs, strict=True)), np.int64(0))
        return [shift_right(total, shifts[0], Rounding.HALF_UP)]
    terms = [
        saturate(shift_right(product, shift, Rounding.HALF_UP), np.int16)
        for product, shift in zip(products, shifts, strict=True)
    ]
    return [term.astype(np.int64) * sign for term, sign in zip(terms, signs, strict=True)]
