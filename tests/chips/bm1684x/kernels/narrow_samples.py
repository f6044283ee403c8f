"""The float kernel samples in f16 and bf16, and samples of integers with zero points."""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from tpuc.api import F32, ScalarType, TensorType
from tpuc_ops import tpu
from tpuc_testing import Typed, integers, quantized, quantized_element
from tpuc_testing.kernel_conformance import Fixed, Operand, Sample

from tests.chips.bm1684x.kernels import samples

Array = NDArray[Any]

DTYPES: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
_NUMBERS = ("alpha", "const_val", "val")
_F32_ONLY = ("div", "softmax", "cast", "exp_high", "ln_extremes", "ln", "sin_far")
"""Quotients and distributions are f32 in every mode; others have operands beyond f16."""


def narrow(kind: str) -> dict[str, Sample]:
    """Every f32 sample whose op has a kernel for 16-bit floats."""
    found: dict[str, Sample] = {}
    for group in samples.ALL.values():
        for name, sample in group.items():
            arrays = [x for x in sample.operands if isinstance(x, np.ndarray)]
            if arrays and sample.result is None and not name.startswith(_F32_ONLY):
                operands = [_narrow(sample, index, DTYPES[kind]) for index in range(len(sample.operands))]
                op = _representable(sample.op, DTYPES[kind])
                found[f"{name}_{kind}"] = dataclasses.replace(sample, op=op, operands=operands)
    return found


def _representable(op: Any, dtype: Any) -> Any:
    """Numbers as lowerings give them: rounded to what an immediate holds."""
    numbers = {name: float(np.float32(getattr(op, name)).astype(dtype)) for name in _NUMBERS if hasattr(op, name)}
    return dataclasses.replace(op, **numbers)


def _narrow(sample: Sample, index: int, dtype: Any) -> Operand:
    operand = sample.operands[index]
    match operand:
        case np.ndarray():
            return np.clip(operand, -6e4, 6e4).astype(dtype)
        case Fixed(array=array) if not _stays_f32(sample, index):
            return Fixed(array.astype(dtype))
        case _:
            return operand


def _stays_f32(sample: Sample, index: int) -> bool:
    """Biases of products, and filters of depthwise convolutions."""
    if not isinstance(sample.op, (tpu.Conv2D, tpu.Deconv, tpu.MatMul)):
        return False
    filters = sample.operands[1]
    outputs = 0 if isinstance(sample.op, tpu.Deconv) else 1  # the dimension with the outputs of a group
    return index == 2 or (
        isinstance(filters, Fixed) and not isinstance(sample.op, tpu.MatMul) and filters.array.shape[outputs] == 1
    )


def point(*shape: int, dtype: str = "int8", scale: float = 0.05, zero: int = -7, seed: int = 0) -> Typed:
    """Bytes with a zero point."""
    return quantized(integers(*shape, dtype=dtype, seed=seed), scale, zero)


POINT = quantized_element("int8", 0.04, 11)
UNSIGNED = quantized_element("uint8", 0.04, 120)
FAR = quantized_element("int8", 0.04, -128)


def _conv(
    x: Typed, channels: int, kernel: tuple[int, int], group: int = 1, **fields: Any
) -> tuple[tpu.Conv2D, list[Any]]:
    multiplier, rshift = samples.scales(channels)
    op = tpu.Conv2D(kernel_shape=kernel, group=group, multiplier=multiplier, rshift=rshift, **fields)
    filters = Fixed(integers(channels, x.array.shape[1] // group, *kernel, seed=1), "si8")
    return op, [x, filters, Fixed(integers(1, channels, 1, 1, dtype="int16", seed=2).astype(np.int32))]


_PIXEL = quantized_element("int8", 274 / 255, -13)
"""With a scale of which whole numbers are halves."""


def _halves(scale: float) -> Array:
    """Multiples of half of the scale, and their neighbors, up to beyond all bytes."""
    steps = np.arange(-600, 600, dtype=np.float32).reshape(2, 75, 2, 4) / 2
    exact = steps * np.float32(scale)
    return np.concatenate([exact, np.nextafter(exact, np.float32(np.inf)), np.round(exact)], 3)


_PAD1 = (1, 1, 1, 1)
_POOL = {"pool_mode": "Avg", "kernel_shape": (3, 3), "strides": (2, 2), "pads": _PAD1, "count_include_pad": True}

ASYMMETRIC = {
    "full": Sample(*_conv(point(2, 150, 7, 6), 70, (3, 3), pads=_PAD1), POINT, ({"n": 1, "c": 64, "h": 2, "k": 64},)),
    "full_u8": Sample(
        *_conv(point(1, 8, 7, 6, dtype="uint8", zero=131), 9, (3, 2), pads=(2, 0, 1, 1), do_relu=True, relu_limit=2.0),
        UNSIGNED,
    ),
    "grouped": Sample(*_conv(point(2, 12, 6, 7), 18, (3, 3), group=3, pads=_PAD1), POINT, ({"n": 1, "h": 2, "w": 3},)),
    "depthwise": Sample(
        *_conv(point(2, 70, 9, 11), 70, (3, 3), group=70, pads=_PAD1, do_relu=True), FAR, ({"c": 64, "h": 4, "w": 5},)
    ),
    "matmul": Sample(
        tpu.MatMul(multipliers=(2**30,), rshifts=(40,), round_mode="HalfUp"),
        [point(3, 5, 130), Fixed(integers(130, 70, seed=3), "si8"), None, None, None],
        POINT,
        ({"n": 2, "h": 64, "k": 64},),
    ),
    "add": Sample(
        tpu.Add(multipliers=(1 << 20, 777777), rshifts=(21,)),
        [point(2, 70, 5, 6), point(2, 70, 5, 6, zero=100, seed=1)],
        POINT,
        ({"c": 64, "h": 2},),
    ),
    "add_mixed": Sample(
        tpu.Add(multipliers=(1 << 20, -777777), rshifts=(21,), do_relu=True),
        [point(1, 7, 5, 6, dtype="uint8", zero=255), point(1, 7, 1, 1, zero=-128, seed=1)],
        UNSIGNED,
    ),
    "add_constant": Sample(
        tpu.Add(multipliers=(1 << 20, 1 << 19), rshifts=(20,)),
        [point(2, 70, 5, 6), Fixed(integers(1, 70, 1, 1, dtype="uint8", seed=1), "ui8")],
        POINT,
    ),
    "sub": Sample(
        tpu.Sub(multipliers=(1 << 20, 777777), rshifts=(21,)),
        [point(2, 7, 5, 6), point(2, 7, 5, 6, zero=100, seed=1)],
        POINT,
        ({"h": 2},),
    ),
    "sub_reverse": Sample(
        tpu.Sub(multipliers=(3 << 18, 777777), rshifts=(21,), is_reverse=True, do_relu=True),
        [point(2, 7, 5, 6), point(1, 7, 1, 6, zero=0, seed=1)],
        POINT,
    ),
    "mul": Sample(
        tpu.Mul(multiplier=2**29 + 12345, rshift=36, do_relu=True),
        [point(2, 70, 5, 6), point(2, 70, 5, 6, zero=100, seed=1)],
        POINT,
        ({"c": 64, "h": 2},),
    ),
    "mul_one_point": Sample(
        tpu.Mul(multiplier=2**29 + 12345, rshift=36),
        [point(2, 7, 5, 6, dtype="uint8", zero=0), point(1, 7, 1, 1, zero=3, seed=1)],
        UNSIGNED,
    ),
    "rescale": Sample(tpu.MulShift(multiplier=2**29 + 5, rshift=29), [point(2, 70, 5, 6)], POINT, ({"c": 64},)),
    "rescale_far": Sample(
        tpu.MulShift(multiplier=-(2**29), rshift=28), [point(2, 7, 5, 6, dtype="uint8", zero=255)], FAR
    ),
    "rescale_narrow": Sample(tpu.MulShift(multiplier=100, rshift=6), [point(2, 7, 5, 6, zero=0)], POINT),
    "add_const": Sample(
        tpu.AddConst(const_val=-1234567.0, multiplier=(1 << 21) + 77, rshift=21),
        [point(2, 70, 5, 6)],
        POINT,
        ({"c": 64},),
    ),
    "prelu": Sample(
        tpu.PReluOp(rshift=7, multiplier_pos=90, rshift_pos=6),
        [point(2, 70, 5, 6), Fixed(integers(1, 70, 1, 1, seed=1), "si8")],
        POINT,
        ({"c": 64, "h": 2},),
    ),
    "relu": Sample(
        tpu.Relu(relu_limit=2.0), [point(1, 7, 5, 6)], TensorType((1, 7, 5, 6), quantized_element("int8", 0.05, -7))
    ),
    "avg_pool": Sample(
        tpu.Pool2D(scale=0.137, offset=-4.3, **_POOL),
        [point(2, 70, 9, 8)],
        TensorType((2, 70, 5, 4), POINT),
        ({"c": 64, "h": 2, "w": 3},),
    ),
    "avg_pool_u8": Sample(
        tpu.Pool2D(scale=0.111, offset=20.7, do_relu=True, **_POOL),
        [point(1, 7, 9, 8, dtype="uint8", zero=128)],
        TensorType((1, 7, 5, 4), UNSIGNED),
    ),
    "max_pool": Sample(
        tpu.Pool2D(pool_mode="Max", kernel_shape=(3, 3), pads=_PAD1),
        [point(1, 70, 7, 7)],
        TensorType((1, 70, 7, 7), quantized_element("int8", 0.05, -7)),
    ),
    "mean": Sample(
        tpu.Reduce(axes=(2, 3), mode="ReduceMean", multiplier=1 << 30, rshift=35),
        [point(2, 70, 5, 6)],
        TensorType((2, 70, 1, 1), POINT),
        ({"c": 64},),
    ),
    "quantize": Sample(tpu.Cast(), [samples.f32(2, 70, 5, 6)], POINT, ({"c": 64},)),
    "dequantize": Sample(tpu.Cast(), [point(2, 70, 5, 6)], F32, ({"c": 64},)),
    "quantize_to_even": Sample(tpu.Cast(round_mode="HalfToEven"), [_halves(274 / 255)], _PIXEL, ({"c": 64},)),
    "quantize_to_even_unsigned": Sample(tpu.Cast(round_mode="HalfToEven"), [_halves(0.037)], UNSIGNED),
    "quantize_to_even_symmetric": Sample(
        tpu.Cast(round_mode="HalfToEven"), [_halves(0.037)], quantized_element("int8", 0.037)
    ),
}


def casts(kind: str) -> dict[str, Sample]:
    """Between a 16-bit float and everything else."""
    element = ScalarType(kind)
    x = samples.f32(2, 70, 5, 6, low=-7, high=7)
    other = {"f16": "bf16", "bf16": "f16"}[kind]
    return {
        f"{kind}_from_f32": Sample(tpu.Cast(), [x], element, ({"c": 64},)),
        f"{kind}_to_f32": Sample(tpu.Cast(), [x.astype(DTYPES[kind])], F32),
        f"{kind}_from_{other}": Sample(tpu.Cast(), [x.astype(DTYPES[other])], element, ({"c": 64},)),
        f"{kind}_to_i8": Sample(tpu.Cast(), [x.astype(DTYPES[kind])], quantized_element("int8", 0.05), ({"c": 64},)),
        f"{kind}_to_even": Sample(tpu.Cast(round_mode="HalfToEven"), [x.astype(DTYPES[kind])], _PIXEL, ({"c": 64},)),
        f"{kind}_to_point": Sample(tpu.Cast(), [x.astype(DTYPES[kind])], POINT),
        f"{kind}_from_u8": Sample(tpu.Cast(), [samples.u8(2, 7, 5, 6)], element),
        f"{kind}_from_point": Sample(tpu.Cast(), [point(2, 70, 5, 6)], element, ({"c": 64},)),
    }


__all__ = ["ASYMMETRIC", "casts", "narrow"]
