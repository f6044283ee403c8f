"""Conversion between integers and the real values they represent: rounding, saturation, scales."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import F32, ScalarType, Uniform, UniformPerAxis
from tpuc_ops import top
from tpuc_ops.quant.casts import Dequantize

from tpuc_lang.graph import (
    FLOATS,
    LangError,
    Quantization,
    Scales,
    Tensor,
    ZeroPoints,
    constant,
    limits_of,
    make_one,
)

AWAY = "half_away_from_zero"
ROUND_MODES = (AWAY, "half_to_even", "half_up", "half_down", "towards_zero", "down", "up")
EXACT_BITS = 24
"""Integers of up to this many bits are exact in TOP, which computes in float32."""
BYTES = {"int8": "i8", "uint8": "u8"}


def rounded(where: str, x: Tensor, mode: str) -> Tensor:
    """Round to integers; exact for every float."""
    if mode not in ROUND_MODES:
        raise LangError(f"{where}: round mode '{mode}' is not known; use one of {', '.join(ROUND_MODES)}.")
    match mode:
        case "half_to_even":
            return make_one(where, top.Round(), [x])
        case "down":
            return make_one(where, top.Floor(), [x])
        case "up":
            return make_one(where, top.Ceil(), [x])
        case "half_up" | "half_down":
            return _nearest(where, x, "GreaterOrEqual" if mode == "half_up" else "Greater")
        case _:
            size = make_one(where, top.Abs(), [x])
            whole = _nearest(where, size, "GreaterOrEqual") if mode == AWAY else make_one(where, top.Floor(), [size])
            return make_one(where, top.Mul(), [whole, make_one(where, top.Sign(), [x])])


def _nearest(where: str, x: Tensor, mode: str) -> Tensor:
    """Round down, or up if the fraction compares with one half as `mode` states; no sum is rounded."""
    below = make_one(where, top.Floor(), [x])
    rest = make_one(where, top.Sub(), [x, below])
    step = make_one(where, top.CompareConst(mode=mode, const_val=0.5), [rest])
    return make_one(where, top.Add(), [below, step])


def saturated(
    where: str, x: Tensor, dtype: str, name: str | None = None, quantization: Quantization | None = None
) -> Tensor:
    """Saturate integers to an integer type."""
    low, high = limits_of(dtype)
    op = top.Clip(min=float(low), max=float(high))
    return make_one(where, op, [x], name, dtype=dtype, quantization=quantization)


def wrapped(where: str, x: Tensor, dtype: str, name: str | None = None) -> Tensor:
    """Wrap integers to the low bits of an integer type."""
    return make_one(where, top.Cast(to=dtype.upper()), [x], name, dtype=dtype)


# Real values


def parameters(where: str, scale: Scales | None, zero_point: ZeroPoints | None) -> Quantization:
    """Return one scale or several, with as many zero points (0 by default)."""
    scales = tuple(map(float, np.atleast_1d(1.0 if scale is None else scale).tolist()))
    points = tuple(map(int, np.atleast_1d(0 if zero_point is None else zero_point).tolist()))
    if not all(0 < one < math.inf for one in scales):
        raise LangError(f"{where}: scales must be above 0, these are {list(scales)}.")
    if len(points) not in (1, len(scales)):
        raise LangError(f"{where}: there are {len(scales)} scales and {len(points)} zero points; give equal numbers.")
    return Quantization(scales, points * len(scales) if len(points) == 1 else points)


def real(where: str, x: Tensor, scale: Scales | None = None, zero_point: ZeroPoints | None = None) -> Tensor:
    """Return the real values of integers, by these parameters or by the tensor's own; floats are unchanged."""
    if not x.is_integer:
        if scale is not None and scale != 1.0:
            raise LangError(f"{where}: tensor '{x.name}' is {x.dtype}; scales are for integers.")
        return x
    x.set_quantization(where, scale, zero_point)
    if x.quantization.scale is None:
        raise LangError(f"{where}: tensor '{x.name}' is {x.dtype} without a scale; state one.")
    meaning = parameters(where, x.quantization.scale, x.quantization.zero_point)
    assert meaning.scale is not None
    assert meaning.zero_point is not None
    if x.is_const and x.dtype in BYTES:
        return _stored_constant(where, x, meaning.scale, meaning.zero_point, 0)
    op = top.DequantizeLinear(x_scale=meaning.scale, x_zero_point=meaning.zero_point, axis=1, of=x.dtype.upper())
    return make_one(where, op, [x])


def real_filter(where: str, weight: Tensor, axis: int = 0) -> Tensor:
    """As `real`, for a constant with scales per output channel."""
    meaning = parameters(where, weight.quantization.scale, weight.quantization.zero_point)
    assert meaning.scale is not None
    assert meaning.zero_point is not None
    return _stored_constant(where, weight, meaning.scale, meaning.zero_point, axis)


def _stored_constant(where: str, x: Tensor, scales: tuple[float, ...], points: tuple[int, ...], axis: int) -> Tensor:
    """Create the constant with a quantized type, and return its real values."""
    assert x.data is not None
    storage = ScalarType(BYTES[x.dtype])
    stored = Tensor(x.shape, data=x.data.astype(x.dtype), dtype=x.dtype, is_const=True)
    if len(scales) == 1:
        stored.element = Uniform(storage, F32, scales[0], points[0])
    elif len(scales) == x.shape[axis]:
        stored.element = UniformPerAxis(storage, F32, axis, scales, points)
    else:
        raise LangError(
            f"{where}: there are {len(scales)} scales for {x.shape[axis]} output channels; give one for each."
        )
    return make_one(where, Dequantize(), [stored], shapes=[x.shape])


def quantized(
    where: str,
    x: Tensor,
    meaning: Quantization,
    dtype: str,
    name: str | None = None,
    mode: str = "half_to_even",
) -> Tensor:
    """Quantize real values to a type; several scales belong to dimension 1."""
    assert meaning.scale is not None
    assert meaning.zero_point is not None
    if dtype in FLOATS or dtype.endswith("int32"):
        raise LangError(f"{where}: the result is {dtype}; quantized results must be int8, uint8, int16, or uint16.")
    if mode == "half_to_even":
        op = top.QuantizeLinear(y_scale=meaning.scale, y_zero_point=meaning.zero_point, axis=1, to=dtype.upper())
        return make_one(where, op, [x], name, dtype=dtype, quantization=meaning)
    steps = scaled(where, x, [1 / one for one in meaning.scale], 1)
    whole = shifted(where, rounded(where, steps, mode), meaning.zero_point, 1)
    return saturated(where, whole, dtype, name, meaning)


def scaled(where: str, x: Tensor, factors: Sequence[float], axis: int) -> Tensor:
    """Multiply by one number, or by one for each index of `axis`."""
    if all(one == 1 for one in factors):
        return x
    if len(factors) == 1:
        return make_one(where, top.MulConst(const_val=float(factors[0])), [x])
    return make_one(where, top.Mul(), [x, _along(where, x, factors, axis)])


def shifted(where: str, x: Tensor, offsets: Sequence[float], axis: int) -> Tensor:
    """Add one number, or one for each index of `axis`."""
    if not any(offsets):
        return x
    if len(offsets) == 1:
        return make_one(where, top.AddConst(const_val=float(offsets[0])), [x])
    return make_one(where, top.Add(), [x, _along(where, x, offsets, axis)])


def _along(where: str, x: Tensor, numbers: Sequence[float], axis: int) -> Tensor:
    rank = len(x.shape)
    place = axis % rank
    if x.shape[place] != len(numbers):
        raise LangError(f"{where}: there are {len(numbers)} numbers for {x.shape[place]} indices of axis {axis}.")
    return constant(np.asarray(numbers, np.float32).reshape([-1 if one == place else 1 for one in range(rank)]))
