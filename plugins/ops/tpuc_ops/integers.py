"""Stored integers: exact products, requantization as attributes state it, and clamps in the result's scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from tpuc.api import BF16, TensorType, Uniform, numpy_dtype

from tpuc_ops.arrays import Array
from tpuc_ops.quant.arithmetic import (
    Rounding,
    quantize_float,
    requantize,
    requantize_qdm,
    round_to_int,
    saturate,
    shift_right,
)


def zero_point(type: TensorType) -> int:
    """Return the integer that represents 0; it is 0 for plain integers."""
    return type.element.zero_point if isinstance(type.element, Uniform) else 0


def without_point(type: TensorType) -> TensorType:
    """Return the type with the same scale and zero point 0."""
    return type.with_element(replace(type.uniform, zero_point=0)) if zero_point(type) else type


def is_integer(type: TensorType) -> bool:
    """True if integers are stored."""
    return not type.storage.is_float


def requantized(
    acc: Array, multipliers: Sequence[int], shifts: Sequence[int], mode: str, rounding: str, type: TensorType
) -> Array:
    """Requantize int32 sums `[n, c, ...]` to `type`: rescale, add the zero point, saturate.

    There is one multiplier and shift for all channels, or one per channel. `mode`: MultiplierShift rounds ``acc *
    multiplier / 2**shift`` once by `rounding`; OnlyShift uses multiplier 1; QDM and TFLite round ``acc * multiplier /
    2**31`` half up to int32, then apply the shift with `rounding`.
    """
    count = acc.shape[1]
    if mode == "OnlyShift":
        multipliers = (1,) * len(shifts)
    if not len(multipliers) == len(shifts) or len(shifts) not in (1, count):
        raise ValueError(f"{len(multipliers)} multipliers and {len(shifts)} shifts do not fit {count} channels")
    shape = (1, -1, *(1,) * (acc.ndim - 2))
    factor, shift = (np.asarray(values, np.int64).reshape(shape) for values in (multipliers, shifts))
    scaled = _scale(mode)
    return scaled(acc, factor, shift, zero_point(type), Rounding(rounding), numpy_dtype(type.storage))


def requantized_by_floats(acc: Array, scales: Sequence[float], rounding: str, type: TensorType) -> Array:
    """Requantize int32 sums `[n, c, ...]` to `type` with float scales: ``f32(acc) * f32(scale)`` is rounded to float32,
    then by `rounding` to 16 bits; the zero point is added, and the sum saturated. One scale per channel, or one for
    all.
    """
    factors = np.asarray(scales, np.float32).reshape(1, -1, *(1,) * (acc.ndim - 2))
    whole = saturate(round_to_int(acc.astype(np.float32) * factors, Rounding(rounding)), np.int16)
    return saturate(whole.astype(np.int32) + zero_point(type), numpy_dtype(type.storage))


def scaled_in_half(acc: Array, scales: Sequence[float], bias: Array | None) -> Array:
    """Multiply sums `[n, c, ...]` by one scale per channel, or one for all, and add a float bias. Each step is
    truncated to float32, and the result is rounded to bf16; returned as float32.
    """
    shape = (1, -1, *(1,) * (acc.ndim - 2))
    floats = _cut(acc * np.asarray(scales, np.float64).reshape(shape))
    if bias is not None:
        floats = _cut(floats.astype(np.float64) + bias.reshape(shape))
    return floats.astype(numpy_dtype(BF16)).astype(np.float32)


def _cut(values: Array) -> Array:
    """Truncate float64 numbers to float32, toward 0."""
    near = values.astype(np.float32)
    return np.where(np.abs(near) > np.abs(values), np.nextafter(near, np.float32(0)), near)


def _scale(mode: str) -> Callable[..., Array]:
    match mode:
        case "MultiplierShift" | "OnlyShift":
            return requantize
        case "QDM" | "TFLite":
            return requantize_qdm
        case _:
            raise ValueError(f"quant_mode must be MultiplierShift, OnlyShift, QDM or TFLite, this one is {mode}")


def clamped(x: Array, type: TensorType, do_relu: bool, limit: float) -> Array:
    """Clamp integers to `integer_bounds`, and convert to the storage of `type`."""
    low, high = integer_bounds(type, do_relu, limit)
    return saturate(np.clip(x, low, high), numpy_dtype(type.storage))


def integer_bounds(type: TensorType, do_relu: bool, limit: float) -> tuple[int, int]:
    """Return the bounds of `type`, narrowed by a relu if there is one.

    The relu is ``max(x, zero point)``; a positive `limit` becomes ``round(limit / scale) + zero point``, half away from
    zero.
    """
    dtype = numpy_dtype(type.storage)
    low, high = type.element.bounds if isinstance(type.element, Uniform) else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if do_relu:
        low = max(low, zero_point(type))
        if limit > 0:
            scale = type.uniform.scale
            top = quantize_float(limit, scale, zero_point(type), Rounding.HALF_AWAY_FROM_ZERO, dtype)
            high = min(high, int(top))
    return int(low), int(high)


def rescaled(x: Array, type: TensorType, multiplier: int, shift: int) -> Array:
    """``half_up((q - zp) * multiplier / 2**shift)``, saturated to int16, as int64."""
    product = (x.astype(np.int64) - zero_point(type)) * multiplier
    return saturate(shift_right(product, shift, Rounding.HALF_UP), np.int16).astype(np.int64)


def rescaled_sum(
    operands: Sequence[Array],
    types: Sequence[TensorType],
    multipliers: Sequence[int],
    shifts: Sequence[int],
    signs: Sequence[int],
) -> Array:
    """Return the sum of all operands in the result's scale, each times its sign.

    Each operand is `rescaled` by its own shift, and an additional shift divides the sum. A single shift for several
    operands divides the exact sum of products.
    """
    total = np.zeros((), np.int64)
    if len(shifts) == 1 < len(operands):
        for x, type, multiplier, sign in zip(operands, types, multipliers, signs, strict=True):
            total = total + (x.astype(np.int64) - zero_point(type)) * (multiplier * sign)
        return shift_right(total, shifts[0], Rounding.HALF_UP)
    each, last = shifts[: len(operands)], shifts[len(operands) :]
    for x, type, multiplier, shift, sign in zip(operands, types, multipliers, each, signs, strict=True):
        total = total + rescaled(x, type, multiplier, shift) * sign
    return shift_right(total, last[0], Rounding.HALF_UP) if last else total
