"""Kernels by themselves: operators and operands that every chip of the family has, in integers and in bf16."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from tpuc.api import BF16, F32, TensorType
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_testing import Typed, quantized, quantized_element, uniform
from tpuc_testing.kernel_conformance import Fixed, Sample

QDM = {"quant_mode": "QDM", "round_mode": "HalfAwayFromZero"}
I8, U8 = quantized_element("int8", 0.05), quantized_element("uint8", 0.05)


def _bytes(*shape: int, dtype: str = "int8", seed: int = 0) -> Typed:
    limits = np.iinfo(dtype)
    values = np.random.default_rng(seed).integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return quantized(values, 0.05)


def _small_bytes(*shape: int) -> Typed:
    """So small that they are the upper bytes of numbers of 13 bits."""
    return quantized(np.random.default_rng(6).integers(-16, 16, shape, np.int8), 0.05)


def _half(*shape: int, seed: int = 0) -> Typed:
    array = uniform(*shape, low=-4, high=4, seed=seed).astype(ml_dtypes.bfloat16)
    return Typed(array, TensorType(array.shape, BF16))


def _positive(*shape: int) -> Typed:
    """Of all sizes from 2**-20 to 2**20."""
    array = np.exp2(uniform(*shape, low=-20, high=20, seed=3)).astype(ml_dtypes.bfloat16)
    return Typed(array, TensorType(array.shape, BF16))


def _all_floats(*shape: int) -> Array:
    """Any patterns of 32 bits, and what ends the range of bf16 first."""
    bits = np.random.default_rng(4).integers(0, 1 << 32, shape, np.uint32)
    ends = [0x7EFF7FFF, 0x7EFF8000, 0x7F7EFFFF, 0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000]
    bits.flat[: 2 * len(ends)] = [*ends, *(end | 1 << 31 for end in ends)]
    return bits.view(np.float32)


def _filter(*shape: int, seed: int = 1) -> Fixed:
    return Fixed(np.random.default_rng(seed).integers(-127, 128, shape, np.int8), "si8")


def _half_filter(*shape: int) -> Fixed:
    return Fixed(uniform(*shape, seed=1).astype(ml_dtypes.bfloat16).view(np.uint16), "bf16")


def _bias(*shape: int) -> Fixed:
    return Fixed(np.random.default_rng(2).integers(-9000, 9000, shape, np.int32))


def conv(kernel: tuple[int, int], channels: int, depth: int, **more: Any) -> tpu.Conv2D:
    """A convolution with factors that keep its sums within a byte."""
    random = np.random.default_rng(3)
    multipliers = tuple(int(value) for value in random.integers(1 << 30, (1 << 31) - 1, channels))
    shift = int(np.log2(127 * np.sqrt(depth * kernel[0] * kernel[1])))
    shifts = tuple(int(value) for value in random.integers(shift, shift + 3, channels))
    return tpu.Conv2D(kernel_shape=kernel, multiplier=multipliers, rshift=shifts, **QDM, **more)


def scales_of_sums(channels: int) -> tuple[float, ...]:
    """bf16 numbers that bring sums of products of bytes to a few units."""
    scales = uniform(channels, low=1, high=2, seed=5).astype(ml_dtypes.bfloat16).astype(float) / 2**18
    return tuple(scales.tolist())


_POWERS = Fixed(np.exp(-0.05 * np.arange(256)).astype(np.float32).reshape(1, 1, 1, 256))
PADS = {"pads": (1, 1, 1, 1)}
INTEGERS = {
    "conv": Sample(
        conv((3, 3), 40, 70, **PADS),
        [_bytes(2, 70, 9, 7), _filter(40, 70, 3, 3), _bias(40)],
        I8,
        [{"k": 32}, {"k": 32, "c": 32, "h": 4}, {"n": 1, "h": 2, "w": 3}, {"k": 64, "h": 5}],
    ),
    "conv_unsigned": Sample(
        conv((3, 3), 40, 35, strides=(2, 2), **PADS),
        [_bytes(1, 35, 9, 9, dtype="uint8"), _filter(40, 35, 3, 3), _bias(40)],
        U8,
        [{"k": 32}, {"h": 1}],
    ),
    "conv_three": Sample(conv((5, 5), 8, 3), [_bytes(1, 3, 12, 12), _filter(8, 3, 5, 5), None], I8, [{"h": 3}]),
    "conv_dilated": Sample(
        conv((3, 3), 8, 6, dilations=(2, 3), do_relu=True, relu_limit=2.0),
        [_bytes(1, 6, 12, 12), _filter(8, 6, 3, 3), _bias(8)],
        I8,
        [{"h": 3, "w": 2}],
    ),
    "depthwise": Sample(
        conv((3, 3), 70, 1, group=70, **PADS),
        [_bytes(1, 70, 9, 8), _filter(70, 1, 3, 3), _bias(70)],
        I8,
        [{"c": 32, "h": 4}, {"w": 3}],
    ),
    "depthwise_unsigned": Sample(
        conv((3, 5), 33, 1, group=33, strides=(2, 1), do_relu=True),
        [_bytes(2, 33, 9, 8, dtype="uint8"), _filter(33, 1, 3, 5), None],
        U8,
        [{"n": 1, "c": 32}],
    ),
    "matmul": Sample(
        tpu.MatMul(multipliers=(1 << 30,) * 40, rshifts=(9,) * 40, **QDM),
        [_bytes(3, 70), _filter(70, 40), _bias(1, 40), None, None],
        I8,
        [{"k": 32}, {"c": 32, "h": 1}],
    ),
    "conv_to_halves": Sample(
        tpu.Conv2D(kernel_shape=(3, 3), scales=scales_of_sums(40), do_relu=True, relu_limit=6.0, **PADS),
        [_bytes(2, 70, 9, 7), _filter(40, 70, 3, 3), Fixed(uniform(40, seed=6))],
        BF16,
        [{"k": 32}, {"k": 32, "c": 32, "h": 4}, {"n": 1, "h": 2, "w": 3}],
    ),
    "conv_to_floats": Sample(
        tpu.Conv2D(kernel_shape=(1, 1), scales=scales_of_sums(70)),
        [_bytes(1, 4, 5, 6, dtype="uint8"), _filter(70, 4, 1, 1), Fixed(uniform(70, seed=6))],
        F32,
        [{"c": 32}, {"h": 2, "w": 3}],
    ),
    "matmul_to_floats": Sample(
        tpu.MatMul(scales=scales_of_sums(40)),
        [_bytes(3, 1200), _filter(1200, 40), Fixed(uniform(1, 40, seed=6)), None, None],
        F32,
        [{"k": 64}, {"c": 32, "h": 1}],
    ),
    "matmul_to_halves": Sample(
        tpu.MatMul(scales=scales_of_sums(40)), [_bytes(1, 70), _filter(70, 40), None, None, None], BF16, [{"k": 32}]
    ),
    "max": Sample(
        tpu.Pool2D(kernel_shape=(3, 3), pool_mode="Max", strides=(2, 2), **PADS), [_bytes(1, 40, 9, 9)], I8, [{"h": 2}]
    ),
    "max_unsigned": Sample(
        tpu.Pool2D(kernel_shape=(2, 2), pool_mode="Max", strides=(2, 2)), [_bytes(1, 40, 8, 8, dtype="uint8")], U8
    ),
    "average": Sample(
        tpu.Pool2D(
            kernel_shape=(20, 20), pool_mode="Avg", strides=(20, 20), multiplier=201, rshift=16, round_mode="HalfUp"
        ),
        [_bytes(1, 40, 20, 20)],
        I8,
    ),
    "average_unsigned": Sample(
        tpu.Pool2D(kernel_shape=(3, 3), pool_mode="Avg", multiplier=115, rshift=10, round_mode="HalfUp"),
        [_bytes(1, 40, 8, 8, dtype="uint8")],
        U8,
        [{"h": 2, "w": 4}],
    ),
    "add": Sample(
        tpu.Add(multipliers=(33, 272), rshifts=(7,)), [_bytes(1, 40, 5, 6), _bytes(1, 40, 5, 6, seed=1)], I8, [{"h": 2}]
    ),
    "add_mixed": Sample(
        tpu.Add(multipliers=(33, -69), rshifts=(6,)),
        [_bytes(1, 40, 5, 6, dtype="uint8"), _bytes(1, 40, 5, 6, seed=1)],
        U8,
    ),
    "add_to_unsigned": Sample(
        tpu.Add(multipliers=(124, 32), rshifts=(6,)), [_bytes(1, 40, 5, 6), _bytes(1, 40, 5, 6, seed=1)], U8
    ),
    "add_far_to_unsigned": Sample(
        tpu.Add(multipliers=(20, 212), rshifts=(7,), do_relu=True),
        [_bytes(1, 40, 5, 6, dtype="uint8"), _bytes(1, 40, 5, 6, seed=1)],
        U8,
    ),
    "add_large_unsigned": Sample(
        tpu.Add(multipliers=(-3, 508), rshifts=(8,)),
        [_bytes(1, 40, 5, 6), _bytes(1, 40, 5, 6, dtype="uint8", seed=1)],
        U8,
    ),
    "sub_unsigned": Sample(
        tpu.Sub(multipliers=(90, 27), rshifts=(6,)),
        [_bytes(1, 40, 5, 6, dtype="uint8"), _bytes(1, 40, 5, 6, dtype="uint8", seed=1)],
        U8,
    ),
    "add_four": Sample(
        tpu.Add(multipliers=(16, 1, 16, -1), rshifts=(4,)),
        [_bytes(1, 40, 5, 6, dtype="uint8", seed=seed) for seed in range(3)] + [_bytes(1, 40, 1, 6)],
        U8,
    ),
    "add_four_with_signs": Sample(
        tpu.Add(multipliers=(16, 1, 16, 1), rshifts=(4,)),
        [_bytes(1, 40, 5, 6, seed=seed) for seed in range(2)] + [_bytes(1, 40, 5, 6, dtype="uint8")] * 2,
        U8,
    ),
    "add_unsigned": Sample(
        tpu.Add(multipliers=(90, 127), rshifts=(7,)),
        [_bytes(1, 40, 5, 6, dtype="uint8"), _bytes(1, 40, 5, 6, dtype="uint8", seed=1)],
        U8,
    ),
    "add_rows": Sample(tpu.Add(multipliers=(90, 27), rshifts=(7,)), [_bytes(1, 7, 5), _bytes(1, 7, 5, seed=1)], I8),
    "add_channel": Sample(
        tpu.Add(multipliers=(90, 27), rshifts=(7,), do_relu=True), [_bytes(1, 40, 5, 6), _bytes(1, 40, 1, 1)], I8
    ),
    "add_image": Sample(
        tpu.Add(multipliers=(90, 27), rshifts=(7,)), [_bytes(2, 40, 5, 6), _bytes(1, 1, 5, 6)], I8, [{"n": 1}]
    ),
    "add_three": Sample(
        tpu.Add(multipliers=(40, 30, 50), rshifts=(6,)),
        [_bytes(1, 40, 5, 6), _bytes(1, 40, 5, 6, seed=1), _bytes(1, 40, 5, 6, seed=2)],
        I8,
    ),
    "sub": Sample(
        tpu.Sub(multipliers=(40, 90), rshifts=(7,), is_reverse=True), [_bytes(1, 40, 5, 6), _bytes(1, 40, 5, 6)], I8
    ),
    "mul": Sample(
        tpu.Mul(multiplier=1 << 30, rshift=6, **QDM), [_bytes(1, 40, 5, 6), _bytes(1, 40, 1, 1, dtype="uint8")], I8
    ),
    "mul_unsigned": Sample(
        tpu.Mul(multiplier=1 << 30, rshift=8, **QDM),
        [_bytes(1, 7, 5, dtype="uint8"), _bytes(1, 7, 5, dtype="uint8")],
        U8,
    ),
    "mul_shift": Sample(tpu.MulShift(multiplier=-90, rshift=7), [_bytes(1, 40, 5, 6)], I8),
    "mul_shift_unsigned": Sample(tpu.MulShift(multiplier=90, rshift=6), [_bytes(1, 40, 5, 6, dtype="uint8")], U8),
    "relu": Sample(tpu.Relu(relu_limit=3.0), [_bytes(1, 40, 5, 6)], I8),
    "lut_channels": Sample(
        tpu.Lut(),
        [_bytes(2, 70, 5, 6), Fixed(np.random.default_rng(9).integers(-128, 128, (1, 70, 1, 256), np.int8), "si8")],
        I8,
        [{"c": 32}, {"n": 1, "h": 2}],
    ),
    "lut_lanes": Sample(
        tpu.Lut(),
        [
            _bytes(3, 20, 4, 6, dtype="uint8"),
            Fixed(np.random.default_rng(8).integers(0, 256, (1, 20, 1, 256), np.uint8)),
        ],
        U8,
        [{"n": 2}],
    ),
    "lut": Sample(tpu.Lut(), [_bytes(1, 40, 5, 6), _filter(1, 1, 1, 256)], I8, [{"h": 2}]),
    "add_const": Sample(
        tpu.AddConst(const_val=-300.0, multiplier=-90, rshift=6, do_relu=True), [_bytes(1, 40, 5, 6)], I8, [{"h": 2}]
    ),
    "add_const_unsigned": Sample(
        tpu.AddConst(const_val=-3397.0, multiplier=149, rshift=7), [_bytes(2, 40, 5, 6, dtype="uint8")], U8
    ),
    "add_const_signed": Sample(
        tpu.AddConst(const_val=-20000.0, multiplier=200, rshift=8), [_bytes(1, 7, 5, dtype="uint8")], I8
    ),
    "to_signed": Sample(tpu.AddConst(const_val=-128.0), [_bytes(1, 40, 5, 6, dtype="uint8")], I8),
    "to_unsigned": Sample(tpu.AddConst(const_val=128.0), [_bytes(1, 40, 5, 6)], U8),
    "sum_of_pair": Sample(
        tpu.Add(multipliers=(1, 256, 26, 1), rshifts=(4,)),
        [
            _bytes(2, 40, 2, 6, 2, dtype="uint8"),
            _small_bytes(2, 40, 2, 6, 2),
            _bytes(2, 40, 1, 6, 1),
            _bytes(2, 40, 1, 6, 1, seed=1),
        ],
        U8,
        [{"c": 32}, {"n": 1, "w": 4}],
    ),
    "sum_of_pair_high_first": Sample(
        tpu.Add(multipliers=(-13, 256, -6, 1, 1), rshifts=(5,)),
        [
            _bytes(1, 70, 1, 5, 1, dtype="uint8"),
            _small_bytes(1, 70, 3, 5, 3),
            _bytes(1, 70, 1, 5, 1),
            _bytes(1, 70, 3, 5, 3, dtype="uint8"),
            _bytes(1, 70, 1, 5, 1, seed=1),
        ],
        I8,
        [{"w": 6}],
    ),
    "prelu": Sample(
        tpu.PReluOp(rshift=7, multiplier_pos=90, rshift_pos=6), [_bytes(1, 40, 5, 6), _filter(1, 40, 1, 1)], I8
    ),
    "upsample": Sample(tpu.Upsample(scale_h=2, scale_w=3), [_bytes(1, 40, 5, 6)], I8, [{"h": 2}, {"h": 4, "w": 6}]),
    "permute": Sample(tpu.Permute(order=(0, 2, 3, 1)), [_bytes(2, 40, 5, 6)], I8, [{"w": 7}]),
    "permute_swap": Sample(tpu.Permute(order=(0, 3, 2, 1)), [_bytes(2, 40, 5, 6)], I8),
    "permute_back": Sample(tpu.Permute(order=(0, 3, 1, 2)), [_bytes(2, 5, 6, 40)], I8),
    "concat": Sample(tpu.Concat(axis=3), [_bytes(1, 40, 5, 6), _bytes(1, 40, 5, 3)], I8),
    "slice": Sample(
        tpu.Slice(offset=(0, 3, 1, 5), steps=(1, 2, 1, -2), ends=(1, 40, 5, -100)),
        [_bytes(1, 40, 5, 6)],
        TensorType((1, 19, 4, 3), I8),
    ),
    "slice_of_colors": Sample(
        tpu.Slice(offset=(0, 0, 0, 1), steps=(1, 1, 1, 1), ends=(1, 64, 66, 2)),
        [_bytes(1, 64, 66, 3)],
        TensorType((1, 64, 66, 1), I8),
        [{"c": 8, "w": 40}],
    ),
    "slice_of_columns": Sample(
        tpu.Slice(offset=(0, 0, 0, 2), steps=(1, 1, 1, 3), ends=(2, 40, 5, 12)),
        [_bytes(2, 40, 5, 12)],
        TensorType((2, 40, 5, 4), I8),
        [{"h": 2, "w": 2}, {"c": 8}],
    ),
    "slice_of_pairs": Sample(
        tpu.Slice(offset=(0, 0, -1), steps=(1, 1, 2), ends=(2, 2048, 2)),
        [_bytes(2, 2048, 2, dtype="uint8")],
        TensorType((2, 2048, 1), U8),
    ),
    "pad_channels": Sample(
        tpu.Pad(paddings=(0, 0, 0, 0, 0, 9, 0, 0)), [_bytes(2, 27, 5, 6)], I8, [{"c": 8}, {"h": 2}, {"n": 1}]
    ),
    "pad": Sample(tpu.Pad(paddings=(0, 2, 1, 0, 0, 1, 0, 3), val=-5.0), [_bytes(1, 40, 5, 6)], I8),
}
FLOATS = {
    "conv": Sample(
        tpu.Conv2D(kernel_shape=(3, 3), do_relu=True, relu_limit=5.0, **PADS),
        [_half(1, 40, 9, 7), _half_filter(33, 40, 3, 3), Fixed(uniform(33))],
        BF16,
        [{"k": 32}, {"k": 32, "c": 32, "h": 4}],
    ),
    "depthwise": Sample(
        tpu.Conv2D(kernel_shape=(3, 3), group=40, **PADS),
        [_half(1, 40, 9, 7), _half_filter(40, 1, 3, 3), Fixed(uniform(40))],
        BF16,
    ),
    "matmul": Sample(
        tpu.MatMul(), [_half(3, 70), _half_filter(70, 40), Fixed(uniform(1, 40)), None, None], BF16, [{"k": 32}]
    ),
    "max": Sample(tpu.Pool2D(kernel_shape=(3, 3), pool_mode="Max", **PADS), [_half(1, 40, 9, 9)], BF16),
    "average": Sample(tpu.Pool2D(kernel_shape=(3, 3), pool_mode="Avg"), [_half(1, 40, 9, 9)], BF16),
    "add": Sample(tpu.Add(do_relu=True), [_half(1, 40, 5, 6), _half(1, 40, 1, 1, seed=1)], BF16),
    "add_of_blocks": Sample(tpu.Add(), [_half(2, 3, 2, 6, 2), _half(2, 3, 2, 6, 2, seed=1)], BF16),
    "sub": Sample(tpu.Sub(is_reverse=True, do_relu=True), [_half(1, 7, 5), _half(1, 7, 5, seed=1)], BF16),
    "mul": Sample(tpu.Mul(), [_half(1, 40, 5, 6), _half(40, 5, 6, seed=1)], BF16),
    "mul_const": Sample(tpu.MulConst(const_val=-1.5), [_half(1, 40, 5, 6)], BF16),
    "add_const": Sample(tpu.AddConst(const_val=0.25, do_relu=True, relu_limit=1.0), [_half(1, 40, 5, 6)], BF16),
    "clip": Sample(tpu.Clip(min=-1.0, max=2.0), [_half(1, 40, 5, 6)], BF16),
    "leaky": Sample(tpu.LeakyRelu(alpha=0.125), [_half(1, 40, 5, 6)], BF16),
    "prelu": Sample(tpu.PReluOp(), [_half(1, 40, 5, 6), _half_filter(1, 40, 1, 1)], BF16),
    "permute": Sample(tpu.Permute(order=(0, 2, 3, 1)), [_half(1, 40, 5, 6)], BF16, [{"n": 12, "c": 32}]),
    "permute_floats": Sample(tpu.Permute(order=(0, 2, 3, 1)), [uniform(1, 40, 5, 6)], F32, [{"n": 6}]),
    "permute_back": Sample(tpu.Permute(order=(0, 3, 1, 2)), [_half(1, 5, 6, 40)], BF16),
    "permute_batches": Sample(tpu.Permute(order=(0, 2, 1)), [_half(2, 40, 5)], BF16),
    "upsample": Sample(tpu.Upsample(scale_h=2, scale_w=2), [_half(1, 40, 5, 6)], BF16),
    "softmax": Sample(tpu.Softmax(axis=1), [uniform(2, 7, 5)]),
    "softmax_last": Sample(tpu.Softmax(axis=-1), [uniform(1, 30, 4)]),
    "softmax_bytes": Sample(tpu.Softmax(axis=-1, factor=200.0), [_bytes(1, 40, 5, 30), _POWERS], BF16, [{"c": 32}]),
    "softmax_columns": Sample(
        tpu.Softmax(axis=1, factor=90.0), [_bytes(2, 7, 64, dtype="uint8"), _POWERS], BF16, [{"n": 1}, {"w": 1}]
    ),
    "softmax_planes": Sample(tpu.Softmax(axis=2, factor=255.0), [_bytes(1, 70, 5, 7), _POWERS], BF16, [{"w": 3}]),
    "log_softmax_bytes": Sample(tpu.Softmax(axis=-1, log=True, factor=30.0), [_bytes(3, 100), _POWERS], BF16),
    "log_softmax_columns": Sample(tpu.Softmax(axis=1, log=True, factor=9.0), [_bytes(1, 20, 6, 6), _POWERS], BF16),
    **{
        mode.lower(): Sample(tpu.Active(mode=mode, coeffs=coeffs), [_half(1, 40, 5, 6)], BF16)
        for mode, coeffs in {
            "SIGMOID": None,
            "SILU": None,
            "TANH": None,
            "EXP": None,
            "ELU": (0.7,),
            "HSIGMOID": (0.2, 0.5),
            "HSWISH": None,
            "ERF": None,
            "GELU": None,
            "MISH": None,
            "SOFT_PLUS": None,
            "ABSVAL": None,
            "SQUARE": None,
        }.items()
    },
    **{mode.lower(): Sample(tpu.Active(mode=mode), [_positive(1, 40, 5, 6)], BF16) for mode in ("SQRT", "RSQRT", "LN")},
    "div": Sample(tpu.Div(), [_half(1, 40, 5, 6), _positive(1, 40, 5, 6)], BF16, [{"h": 2}]),
    "div_channel": Sample(tpu.Div(is_reverse=True, do_relu=True), [_positive(1, 40, 1, 1), _half(1, 40, 5, 6)], BF16),
    "quantize": Sample(tpu.Cast(), [uniform(1, 40, 5, 6, low=-8, high=8)], I8),
    "dequantize": Sample(tpu.Cast(), [_bytes(1, 40, 5, 6)], F32),
    "widen": Sample(tpu.Cast(), [_half(1, 40, 5, 6)], F32, [{"h": 2}]),
    "narrow": Sample(tpu.Cast(round_mode="TowardsZero"), [uniform(1, 7, 5)], BF16),
    "narrow_nearest": Sample(tpu.Cast(round_half=True), [uniform(2, 40, 5, 6, low=-8, high=8)], BF16, [{"h": 2}]),
    "narrow_all": Sample(tpu.Cast(round_half=True), [_all_floats(2, 40, 5, 6)], BF16, [{"h": 2}]),
    **{
        f"{kind}_to_{other}": Sample(tpu.Cast(in_half=True, round_mode="HalfToEven"), [operand], result)
        for kind, operand, targets in (
            ("f32", uniform(1, 40, 5, 6, low=-9, high=14), ("i8", "u8")),
            ("bf16", _half(1, 40, 5, 6), ("i8", "u8")),
            ("i8", _bytes(1, 40, 5, 6), ("f32", "bf16")),
            ("u8", _bytes(1, 40, 5, 6, dtype="uint8"), ("f32", "bf16")),
        )
        for other, result in (("i8", I8), ("u8", U8), ("f32", F32), ("bf16", BF16))
        if other in targets
    },
    **{
        f"nearest_f32_to_{other}": Sample(
            tpu.Cast(in_half=True, round_mode="HalfToEven", round_half=True),
            [uniform(2, 40, 5, 6, low=-9, high=14)],
            quantized_element({"i8": "int8", "u8": "uint8"}[other], 0.05),
            [{"h": 2}],
        )
        for other in ("i8", "u8")
    },
    **{
        f"image_f32_to_{other}": Sample(
            tpu.Cast(in_half=True, round_mode="HalfToEven", round_half=nearest),
            [uniform(*shape, low=-9, high=14)],
            quantized_element({"i8": "int8", "u8": "uint8"}[other], 0.05),
            [{"w": 7}],
        )
        for other, nearest, shape in (("i8", False, (1, 3, 16, 24)), ("u8", True, (2, 3, 8, 17)))
    },
    "from_bytes": Sample(tpu.Cast(with_scale=False), [_bytes(1, 40, 5, 6, dtype="uint8")], BF16),
    "to_bytes": Sample(tpu.Cast(with_scale=False, round_mode="HalfToEven"), [_half(1, 40, 5, 6)], I8),
    "to_unsigned": Sample(tpu.Cast(with_scale=False, round_mode="HalfToEven"), [_half(1, 40, 5, 6)], U8),
}
