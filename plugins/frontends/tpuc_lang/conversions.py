"""Conversions between types and between scales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc_ops import top

from tpuc_lang.graph import FLOATS, INTEGERS, LangError, Quantization, Tensor, floats_only, limits_of, make_one
from tpuc_lang.stored import AWAY, EXACT_BITS, real, rounded, saturated, scaled, shifted
from tpuc_lang.wide import product_shifted

NARROW = ("int8", "uint8", "int16", "uint16")
MODES = 3
"""Modes of `requant_int`: left shift first, high half of the product, plain product."""


def cast(tensor_i: Tensor, out_dtype: str = "float32", out_name: str | None = None, round_mode: str = AWAY) -> Tensor:
    """Convert numbers with rounding and saturation; the quantization of integers is dropped."""
    where = "cast"
    if out_dtype in INTEGERS:
        whole = tensor_i if tensor_i.is_integer else rounded(where, tensor_i, round_mode)
        return saturated(where, whole, out_dtype, out_name)
    if out_dtype not in FLOATS:
        known = ", ".join((*FLOATS, *INTEGERS))
        raise LangError(f"{where}: out_dtype '{out_dtype}' is not known; use one of {known}.")
    return make_one(where, top.AddConst(const_val=0.0), [tensor_i], out_name, dtype=out_dtype)


def requant_fp_to_int(
    tensor_i: Tensor,
    scale: float | Sequence[float],
    offset: float | Sequence[float],
    requant_mode: int,
    out_dtype: str,
    out_name: str | None = None,
    round_mode: str = AWAY,
) -> Tensor:
    """Return ``round(x * scale) + offset``, or ``round(x * scale + offset)`` with `requant_mode` 1, saturated."""
    where = "requant_fp_to_int"
    if requant_mode not in (0, 1):
        raise LangError(f"{where}: requant_mode is {requant_mode}; use 0 or 1.")
    factors, offsets = _numbers(scale), _numbers(offset)
    value = scaled(where, tensor_i, factors, 1)
    if requant_mode == 0:
        value = shifted(where, rounded(where, value, round_mode), offsets, 1)
    else:
        value = rounded(where, shifted(where, value, offsets, 1), round_mode)
    return _narrow(where, value, out_dtype, out_name, _meaning(factors, offsets))


def requant_fp(
    tensor_i: Tensor,
    scale: float | Sequence[float],
    offset: float | Sequence[float],
    out_dtype: str,
    out_name: str | None = None,
    round_mode: str = AWAY,
    first_round_mode: str = AWAY,  # noqa: ARG001  # changes no number here
) -> Tensor:
    """Return ``round(x * scale + offset)`` of integers, saturated.

    `first_round_mode`, for the conversion of integers to floats, has no effect: nothing is rounded there.
    """
    where = "requant_fp"
    value = shifted(where, scaled(where, tensor_i, _numbers(scale), 1), _numbers(offset), 1)
    return _narrow(where, rounded(where, value, round_mode), out_dtype, out_name)


def requant_int(
    tensor_i: Tensor,
    mul: int | Sequence[int],
    shift: int | Sequence[int],
    offset: int | Sequence[int],
    requant_mode: int,
    out_dtype: str = "int8",
    out_name: str | None = None,
    round_mode: str = AWAY,
    rq_axis: int = 1,
    fuse_rq_to_matmul: bool = False,  # noqa: ARG001  # changes no number here
) -> Tensor:
    """Return ``x * mul * 2**shift`` rounded, plus offset, saturated; exact in integers.

    In modes 0 and 1 the product is first shifted right by 31 bits, rounded half up; in mode 0 a left shift comes before
    it. `fuse_rq_to_matmul` has no effect on results.
    """
    where = "requant_int"
    if requant_mode not in range(MODES):
        raise LangError(f"{where}: requant_mode is {requant_mode}; use 0, 1 or 2.")
    _check_whole(where, tensor_i)
    factors, shifts = _alike(where, mul, shift)
    if requant_mode == 2:
        value = _product(where, tensor_i, factors, shifts, rq_axis, round_mode)
    else:
        up = [max(one, 0) for one in shifts]
        if any(up) and requant_mode == 1:
            raise LangError(f"{where}: requant_mode 1 shifts to the right only; its shifts are 0 or below.")
        steps = [factor << one for factor, one in zip(factors, up, strict=True)]
        value = product_shifted(where, tensor_i, steps, [31] * len(steps), rq_axis, "half_up")
        down = [2.0 ** min(one, 0) for one in shifts]
        value = rounded(where, scaled(where, value, down, rq_axis), round_mode)
    value = shifted(where, value, _numbers(offset), rq_axis)
    return _narrow(where, value, out_dtype, out_name, allowed=(*NARROW, "int32"))


def dequant_int(
    tensor_i: Tensor,
    mul: int | Sequence[int],
    shift: int | Sequence[int],
    offset: int | Sequence[int],
    lshift: int,
    requant_mode: int,
    out_dtype: str = "int8",
    out_name: str | None = None,
    round_mode: str = "half_up",
) -> Tensor:
    """Return ``(x - offset) * mul * 2**shift`` rounded, saturated; exact in integers.

    In mode 1 the product is first shifted left by `lshift` and right by 31 bits, rounded half up.
    """
    where = "dequant_int"
    if requant_mode not in (0, 1):
        raise LangError(f"{where}: requant_mode is {requant_mode}; use 0 or 1.")
    _check_whole(where, tensor_i)
    factors, shifts = _alike(where, mul, shift)
    value = shifted(where, tensor_i, [-one for one in _numbers(offset)], 1)
    value.dtype = "int32"
    if requant_mode == 0:
        value = _product(where, value, factors, shifts, 1, round_mode)
    else:
        if max(shifts) > 0:
            raise LangError(f"{where}: requant_mode 1 shifts to the right only; its shifts are 0 or below.")
        steps = [factor << lshift for factor in factors]
        value = product_shifted(where, value, steps, [31] * len(steps), 1, "half_up")
        value = rounded(where, scaled(where, value, [2.0**one for one in shifts], 1), round_mode)
    return _narrow(where, value, out_dtype, out_name, allowed=(*NARROW, "int32"))


def dequant_int_to_fp(
    tensor_i: Tensor,
    scale: float | Sequence[float],
    offset: float | Sequence[float],
    out_dtype: str = "float32",
    out_name: str | None = None,
    round_mode: str = AWAY,  # noqa: ARG001  # changes no number here
) -> Tensor:
    """Return ``(x - offset) * scale``. `round_mode` applies to float16, which is rounded to nearest even here."""
    where = "dequant_int_to_fp"
    _check_whole(where, tensor_i)
    if out_dtype not in FLOATS:
        raise LangError(f"{where}: out_dtype is '{out_dtype}'; use one of {', '.join(FLOATS)}.")
    factors, offsets = _numbers(scale), _numbers(offset)
    if any(one != round(one) for one in offsets):
        value = scaled(where, shifted(where, tensor_i, [-one for one in offsets], 1), factors, 1)
        return make_one(where, top.AddConst(const_val=0.0), [value], out_name, dtype=out_dtype)
    tensor_i.set_quantization(where, factors, [int(one) for one in offsets])
    return dequantize(tensor_i, out_dtype, out_name)


# Beyond the language: scales that tensors remember


def dequantize(tensor_i: Tensor, out_dtype: str = "float32", out_name: str | None = None) -> Tensor:
    """Return the real values of integers, whose scale must be known."""
    where = "dequantize"
    scales, offsets = tensor_i.quantization.scale, tensor_i.quantization.zero_point or (0,)
    if not tensor_i.is_integer or scales is None or out_dtype not in FLOATS:
        raise LangError(
            f"{where}: tensor '{tensor_i.name}' needs a scale and a float type to convert to; it has {tensor_i.dtype}."
        )
    if len(offsets) not in (1, len(scales)):
        raise LangError(f"{where}: tensor '{tensor_i.name}' has {len(scales)} scales and {len(offsets)} zero points.")
    value = real(where, tensor_i)
    value.dtype = out_dtype
    if out_name is not None:
        value.rename(out_name)
    return value


def quantize(
    tensor_i: Tensor, scale: float, zero_point: int = 0, out_dtype: str = "int8", out_name: str | None = None
) -> Tensor:
    """Return the nearest integers that represent these values, ties to even, saturated."""
    where = "quantize"
    floats_only(where, tensor_i)
    if out_dtype not in NARROW:
        raise LangError(f"{where}: out_dtype is '{out_dtype}'; use int8, uint8, int16 or uint16.")
    if not 0 < scale < math.inf:
        raise LangError(f"{where}: the scale is {scale:g}; it must be above 0.")
    op = top.QuantizeLinear(y_scale=(float(scale),), y_zero_point=(int(zero_point),), axis=1, to=out_dtype.upper())
    meaning = Quantization((float(scale),), (int(zero_point),))
    return make_one(where, op, [tensor_i], out_name, dtype=out_dtype, quantization=meaning)


def requantize(
    tensor_i: Tensor, scale: float, zero_point: int = 0, out_dtype: str = "int8", out_name: str | None = None
) -> Tensor:
    """Return the same values with another scale and zero point."""
    return quantize(dequantize(tensor_i), scale, zero_point, out_dtype, out_name)


# Numbers


def _product(
    where: str, x: Tensor, factors: Sequence[int], shifts: Sequence[int], axis: int, round_mode: str
) -> Tensor:
    """Multiply by factors and powers of two; left shifts are folded into the factors."""
    steps = [factor << max(one, 0) for factor, one in zip(factors, shifts, strict=True)]
    return product_shifted(where, x, steps, [max(-one, 0) for one in shifts], axis, round_mode)


def _narrow(
    where: str,
    value: Tensor,
    dtype: str,
    name: str | None,
    meaning: Quantization | None = None,
    allowed: Sequence[str] = NARROW,
) -> Tensor:
    if dtype not in allowed:
        raise LangError(f"{where}: out_dtype is '{dtype}'; use one of {', '.join(allowed)}.")
    return saturated(where, value, dtype, name, meaning)


def _meaning(factors: Sequence[float], offsets: Sequence[float]) -> Quantization | None:
    """Return the quantization of ``x * factor + offset``; None if it is none."""
    if min(factors) <= 0 or any(one != round(one) for one in offsets):
        return None
    return Quantization(tuple(1 / one for one in factors), tuple(int(one) for one in offsets))


def _check_whole(where: str, x: Tensor) -> None:
    if not x.is_integer:
        raise LangError(f"{where}: tensor '{x.name}' is {x.dtype}; this takes integers.")


def _alike(where: str, mul: Any, shift: Any) -> tuple[list[int], list[int]]:
    """Repeat factors or shifts so that there are as many of both."""
    factors, shifts = [int(one) for one in _numbers(mul)], [int(one) for one in _numbers(shift)]
    count = max(len(factors), len(shifts))
    if not {len(factors), len(shifts)} <= {1, count}:
        raise LangError(f"{where}: there are {len(factors)} factors and {len(shifts)} shifts; give equal numbers.")
    low, high = limits_of("int32")
    if any(not low <= one <= high for one in factors):
        raise LangError(f"{where}: a factor does not fit int32; split it into a smaller one and a shift.")
    if max(map(abs, shifts)) > 63:
        raise LangError(f"{where}: a shift is beyond 63 bits; nothing is left of {EXACT_BITS} bits.")
    return factors * (count // len(factors)), shifts * (count // len(shifts))


def _numbers(values: Any) -> list[Any]:
    return np.atleast_1d(values).tolist()
