"""Kernel samples of BM1684X, by subject: for the simulator here, for the vendor's model in tests/interop."""

from __future__ import annotations

import numpy as np
from tpuc.api import TensorType, Uniform
from tpuc_ops import tpu
from tpuc_testing import Typed, integers, quantized, quantized_element, uniform
from tpuc_testing.kernel_conformance import Fixed, Sample

I8 = quantized_element("int8", 0.05)
U8 = quantized_element("uint8", 0.03)


def i8(*shape: int, seed: int = 0) -> Typed:
    """Signed bytes of scale 0.05."""
    return quantized(integers(*shape, seed=seed), 0.05)


def u8(*shape: int, seed: int = 0) -> Typed:
    """Unsigned bytes of scale 0.03."""
    return quantized(integers(*shape, dtype="uint8", seed=seed), 0.03)


def f32(*shape: int, low: float = -3.0, high: float = 3.0, seed: int = 0) -> np.ndarray:
    """Floats."""
    return uniform(*shape, low=low, high=high, seed=seed)


def row(*values: float) -> np.ndarray:
    """Floats in one row."""
    return np.array([values], np.float32)


def scales(channels: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Different 31-bit multipliers and shifts for every channel."""
    return tuple(2**30 + 7919 * c for c in range(channels)), tuple(36 + c % 5 for c in range(channels))


def conv_int8(
    x: Typed,
    channels: int,
    kernel: tuple[int, int],
    result: Uniform = I8,
    group: int = 1,
    bias: bool = True,
    **fields: object,
) -> tuple[tpu.Conv2D, list[Typed | Fixed | None]]:
    """A convolution of bytes with per-channel requantization."""
    multiplier, rshift = scales(channels)
    op = tpu.Conv2D(kernel_shape=kernel, group=group, multiplier=multiplier, rshift=rshift, with_bias=bias, **fields)  # type: ignore[arg-type]
    filters = Fixed(integers(channels, x.array.shape[1] // group, *kernel, seed=1), "si8")
    biases = Fixed(integers(1, channels, 1, 1, dtype="int16", seed=2).astype(np.int32)) if bias else None
    return op, [x, filters, biases]


def conv_f32(
    x: np.ndarray, channels: int, kernel: tuple[int, int], group: int = 1, **fields: object
) -> tuple[tpu.Conv2D, list[np.ndarray | Fixed | None]]:
    """A convolution of floats with bias."""
    op = tpu.Conv2D(kernel_shape=kernel, group=group, **fields)  # type: ignore[arg-type]
    return op, [x, Fixed(f32(channels, x.shape[1] // group, *kernel, seed=1)), Fixed(f32(channels, seed=2))]


_PAD1 = (1, 1, 1, 1)

CONVOLUTIONS = {
    "dw_i8": Sample(
        *conv_int8(i8(2, 70, 9, 11), 70, (3, 3), group=70, pads=_PAD1),
        I8,
        ({"n": 1, "c": 64, "h": 4, "w": 5}, {"h": 1, "w": 1}),
    ),
    "dw_u8_stride": Sample(
        *conv_int8(u8(1, 20, 12, 10), 20, (3, 3), U8, group=20, strides=(2, 2), pads=(0, 0, 1, 1), do_relu=True),
        U8,
        ({"h": 2, "w": 3},),
    ),
    "dw_u8_to_i8_dilated": Sample(
        *conv_int8(u8(1, 130, 9, 9), 130, (3, 2), group=130, dilations=(2, 3), pads=(2, 1, 2, 2), bias=False),
        I8,
        ({"c": 64, "h": 3},),
    ),
    "dw_f32": Sample(
        *conv_f32(f32(2, 66, 8, 7), 66, (3, 3), group=66, pads=_PAD1, do_relu=True, relu_limit=6.0),
        None,
        ({"n": 1, "c": 64, "h": 3, "w": 2},),
    ),
    "dw_f32_one_pixel": Sample(*conv_f32(f32(1, 5, 4, 4), 5, (1, 1), group=5)),
    "group_i8": Sample(
        *conv_int8(i8(2, 12, 6, 7), 18, (3, 3), group=3, pads=_PAD1),
        I8,
        ({"n": 1, "h": 2, "w": 3},),
    ),
    "group_wide_i8": Sample(
        *conv_int8(u8(1, 96, 5, 5), 192, (1, 3), U8, group=2, pads=(0, 1, 0, 1), do_relu=True),
        U8,
        ({"c": 64}, {"c": 128, "h": 2}),
    ),
    "group_crossing_lanes_i8": Sample(
        *conv_int8(i8(2, 200, 4, 4), 150, (2, 2), group=10, strides=(2, 2)), I8, ({"n": 1, "c": 64, "h": 1},)
    ),
    "channel_multiplier_i8": Sample(*conv_int8(i8(1, 10, 5, 5), 30, (3, 3), group=10, pads=_PAD1), I8),
    "group_f32": Sample(*conv_f32(f32(2, 70, 5, 6), 140, (3, 3), group=5, pads=_PAD1), None, ({"c": 64, "h": 2},)),
    "full_i8": Sample(
        *conv_int8(i8(2, 150, 7, 6), 70, (3, 3), strides=(2, 1), pads=_PAD1),
        I8,
        ({"n": 1, "c": 64, "h": 2, "w": 3, "k": 64},),
    ),
    "full_f32": Sample(
        *conv_f32(f32(1, 20, 7, 6), 70, (3, 3), pads=_PAD1), None, ({"c": 64, "h": 2, "k": 6}, {"k": 7})
    ),
    "deconv_i8": Sample(
        tpu.Deconv(
            kernel_shape=(4, 3), strides=(2, 3), pads=(1, 1, 1, 1), multiplier=scales(70)[0], rshift=scales(70)[1]
        ),
        [
            i8(2, 20, 5, 4),
            Fixed(integers(70, 20, 4, 3, seed=1), "si8"),
            Fixed(integers(70, dtype="int32", seed=2) >> 12),
        ],
        I8,
        ({"n": 1, "c": 64, "h": 1, "w": 1}, {"h": 3, "w": 5}),
    ),
    "deconv_grouped_i8": Sample(
        tpu.Deconv(kernel_shape=(2, 2), strides=(2, 2), group=6, multiplier=scales(12)[0], rshift=scales(12)[1]),
        [u8(2, 12, 5, 4), Fixed(integers(2, 12, 2, 2, seed=1), "si8"), None],
        I8,
        ({"n": 1, "h": 1, "w": 3},),
    ),
    "deconv_f32": Sample(
        tpu.Deconv(kernel_shape=(3, 3), strides=(2, 1), pads=(1, 1, 1, 1), output_padding=(1, 0), dilations=(1, 2)),
        [f32(1, 20, 5, 4), Fixed(f32(7, 20, 3, 3, seed=1)), Fixed(f32(7, seed=2))],
        None,
        ({"h": 1, "w": 1, "k": 6}, {"h": 4, "k": 7}),
    ),
    "deconv_extremes_f32": Sample(
        tpu.Deconv(kernel_shape=(16, 16), strides=(16, 15)),
        [f32(1, 3, 3, 3), Fixed(f32(2, 3, 16, 16, seed=1)), None],
        None,
        ({"h": 1, "w": 47}, {"h": 17, "w": 1}),
    ),
    "deconv_grouped_f32": Sample(
        tpu.Deconv(kernel_shape=(4, 4), strides=(2, 2), pads=(1, 1, 1, 1), group=70),
        [f32(1, 70, 5, 4), Fixed(f32(1, 70, 4, 4, seed=1)), Fixed(f32(70, seed=2))],
        None,
        ({"c": 64, "h": 3, "w": 1},),
    ),
    "attention_f32": Sample(
        tpu.MatMul(),
        [f32(2, 3, 7, 21), f32(2, 3, 21, 70, seed=1), None, None, None],
        None,
        ({"n": 4, "c": 64, "h": 3},),
    ),
    "attention_turned_f32": Sample(
        tpu.MatMul(right_transpose=True, do_relu=True),
        [f32(3, 7, 21), f32(3, 150, 21, seed=1), None, None, None],
        None,
        ({"n": 2, "c": 128, "h": 5},),
    ),
    "attention_i8": Sample(
        tpu.MatMul(multipliers=(2**30,), rshifts=(39,), round_mode="HalfUp"),
        [i8(2, 3, 7, 100), u8(2, 3, 100, 130, seed=1), None, None, None],
        quantized_element("int8", 0.05, 9),
        ({"n": 4, "c": 64, "h": 3},),
    ),
    "matmul_i8": Sample(
        tpu.MatMul(multipliers=(2**30,), rshifts=(40,), round_mode="HalfUp"),
        [i8(3, 5, 130), Fixed(integers(130, 70, seed=3), "si8"), None, None, None],
        I8,
        ({"n": 2, "h": 64, "k": 64},),
    ),
    "matmul_one_row_i8": Sample(
        tpu.MatMul(multipliers=(2**30,), rshifts=(40,), round_mode="HalfUp"),
        [i8(1, 130), Fixed(integers(130, 70, seed=3), "si8"), None, None, None],
        I8,
        ({"c": 64, "k": 64},),
    ),
    "matmul_rows_i8": Sample(
        tpu.MatMul(multipliers=scales(130)[0], rshifts=scales(130)[1], round_mode="HalfUp", do_relu=True),
        [i8(70, 130), Fixed(integers(130, 130, seed=3), "si8"), Fixed(integers(1, 130, dtype="int32")), None, None],
        I8,
        ({"h": 64, "k": 64}, {"h": 128}),
    ),
    "matmul_rows_f32": Sample(
        tpu.MatMul(right_transpose=True, do_relu=True, relu_limit=3.0),
        [f32(3, 70, 65), Fixed(f32(130, 65, seed=3)), Fixed(f32(130, seed=4)), None, None],
        None,
        ({"n": 2, "h": 64, "k": 64},),
    ),
    "matmul_many_rows_f32": Sample(
        tpu.MatMul(), [f32(1536, 20), Fixed(f32(20, 70, seed=3)), None, None, None], None, ({"n": 1, "h": 64},)
    ),
}

SUMS = {
    "max_i8": Sample(
        tpu.Max(), [i8(2, 70, 5, 6), i8(1, 70, 1, 1, seed=1)], TensorType((2, 70, 5, 6), I8), ({"c": 64, "h": 2},)
    ),
    "min_f32": Sample(tpu.Min(), [f32(2, 1, 5, 6), f32(2, 70, 5, 6, seed=1)], None, ({"c": 64, "h": 2},)),
    "add_i8": Sample(
        tpu.Add(multipliers=(100, 77), rshifts=(6, 7)),
        [i8(2, 70, 5, 6), i8(2, 70, 5, 6, seed=1)],
        I8,
        ({"c": 64, "h": 2},),
    ),
    "add_u8_relu": Sample(
        tpu.Add(multipliers=(100, 77), rshifts=(6, 7), do_relu=True), [u8(1, 5, 5, 6), u8(1, 5, 5, 6, seed=1)], U8
    ),
    "add_mixed_to_u8": Sample(
        tpu.Add(multipliers=(100, 77), rshifts=(6, 8)), [i8(1, 5, 5, 6), u8(1, 5, 5, 6, seed=1)], U8
    ),
    "add_i8_bits_below": Sample(
        tpu.Add(multipliers=(100, -77), rshifts=(0, 1, 6)),
        [i8(2, 70, 5, 6), i8(1, 70, 1, 6, seed=1)],
        TensorType((2, 70, 5, 6), I8),
        ({"c": 64, "h": 2},),
    ),
    "add_i8_wide_multipliers": Sample(
        tpu.Add(multipliers=(32001, -17003), rshifts=(8, 9, 6)),
        [i8(2, 70, 5, 6), u8(1, 70, 1, 6, seed=1)],
        TensorType((2, 70, 5, 6), I8),
        ({"c": 64, "h": 2},),
    ),
    "add_u8_wide_multipliers": Sample(
        tpu.Add(multipliers=(32001, 17003), rshifts=(8, 9, 7)), [u8(1, 5, 5, 6), u8(1, 5, 5, 6, seed=1)], U8
    ),
    "sub_wide_multipliers": Sample(
        tpu.Sub(multipliers=(32001, 17003), rshifts=(8, 9, 7), is_reverse=True),
        [u8(1, 5, 5, 6), i8(1, 5, 5, 6, seed=1)],
        I8,
    ),
    "add_u8_bits_below": Sample(
        tpu.Add(multipliers=(100, 127), rshifts=(1, 0, 7), do_relu=True, relu_limit=3.0),
        [u8(1, 5, 5, 6), u8(1, 5, 5, 6, seed=1)],
        U8,
    ),
    "add_mixed_to_u8_bits_below": Sample(
        tpu.Add(multipliers=(100, 77), rshifts=(0, 1, 7)), [i8(1, 5, 5, 6), u8(1, 5, 5, 6, seed=1)], U8
    ),
    "sub_reversed_bits_below": Sample(
        tpu.Sub(multipliers=(120, 77), rshifts=(0, 1, 7), is_reverse=True), [u8(1, 5, 5, 6), u8(1, 5, 5, 6, seed=1)], I8
    ),
    "add_u8_to_i8_negative": Sample(
        tpu.Add(multipliers=(100, -77), rshifts=(6, 7)), [u8(1, 5, 5, 6), u8(1, 5, 5, 6, seed=1)], I8
    ),
    "add_left_shift": Sample(
        tpu.Add(multipliers=(3, 1), rshifts=(-6, 0)), [i8(1, 5, 5, 6), i8(1, 5, 5, 6, seed=1)], I8
    ),
    "add_channel_i8": Sample(
        tpu.Add(multipliers=(100, 77), rshifts=(6, 7)),
        [i8(2, 70, 5, 6), i8(1, 70, 1, 1, seed=1)],
        I8,
        ({"c": 64, "h": 2},),
    ),
    "add_place_i8": Sample(
        tpu.Add(multipliers=(100, 77), rshifts=(6, 7)),
        [i8(2, 1, 5, 6), i8(2, 70, 5, 6, seed=1)],
        I8,
        ({"c": 64, "h": 2},),
    ),
    "add_constant_i8": Sample(
        tpu.Add(multipliers=(100, 77), rshifts=(6, 7)),
        [i8(2, 70, 5, 6), Fixed(integers(1, 70, 5, 1, seed=1), "si8")],
        I8,
        ({"n": 1, "c": 64, "h": 2},),
    ),
    "add_rows_f32": Sample(tpu.Add(), [f32(1, 4420, 2), Fixed(f32(1, 4420, 2, seed=1))], None, ({"c": 640},)),
    "add_number_f32": Sample(tpu.Add(do_relu=True), [f32(2, 70, 5), Fixed(f32(1, seed=1))], None, ({"c": 64, "h": 3},)),
    "add_batch_f32": Sample(tpu.Add(), [f32(3, 5, 5, 6), f32(5, 5, 6, seed=1)], None, ({"n": 2, "h": 2},)),
    "sub_i8": Sample(
        tpu.Sub(multipliers=(100, 77), rshifts=(6, 7)),
        [i8(2, 70, 5, 6), i8(2, 70, 5, 6, seed=1)],
        I8,
        ({"c": 64, "h": 2},),
    ),
    "sub_u8": Sample(tpu.Sub(multipliers=(100, 77), rshifts=(6, 7)), [u8(2, 7, 5, 6), u8(2, 7, 5, 6, seed=1)], U8),
    "sub_reverse_i8": Sample(
        tpu.Sub(multipliers=(100, 77), rshifts=(6, 7), is_reverse=True), [i8(2, 7, 5, 6), u8(1, 7, 1, 6, seed=1)], I8
    ),
    "sub_f32": Sample(tpu.Sub(), [f32(2, 70, 5, 6), f32(2, 1, 5, 6, seed=1)], None, ({"n": 1, "c": 64},)),
    "sub_reverse_f32": Sample(tpu.Sub(is_reverse=True), [f32(2, 7, 5, 6), Fixed(f32(7, 1, 1, seed=1))]),
    "add_const_i8": Sample(
        tpu.AddConst(const_val=1234.0, multiplier=90, rshift=7), [i8(1, 70, 3, 5)], I8, ({"c": 64},)
    ),
    "add_const_u8_negative": Sample(tpu.AddConst(const_val=30000.0, multiplier=-90, rshift=7), [u8(1, 7, 3, 5)], U8),
    "add_const_f32": Sample(tpu.AddConst(const_val=0.3, do_relu=True, relu_limit=2.0), [f32(1, 7, 3, 5)]),
    "cast_same": Sample(
        tpu.Cast(), [f32(1, 7, 3, 5)], TensorType((1, 7, 3, 5), quantized_element("int8", 1).expressed)
    ),
}

PRODUCTS = {
    "mul_i8": Sample(
        tpu.Mul(multiplier=90, rshift=13), [i8(2, 70, 5, 6), i8(2, 70, 5, 6, seed=1)], I8, ({"n": 1, "c": 64, "h": 2},)
    ),
    "mul_u8": Sample(tpu.Mul(multiplier=100, rshift=14), [u8(1, 7, 5, 6), u8(1, 7, 5, 6, seed=1)], U8),
    "mul_mixed": Sample(tpu.Mul(multiplier=100, rshift=14, do_relu=True), [i8(1, 7, 5, 6), u8(1, 7, 5, 6, seed=1)], U8),
    "mul_u8_to_i8": Sample(tpu.Mul(multiplier=-100, rshift=15), [u8(1, 7, 5, 6), u8(1, 7, 5, 6, seed=1)], I8),
    "mul_gate_i8": Sample(
        tpu.Mul(multiplier=90, rshift=13), [i8(2, 70, 5, 6), u8(2, 70, 1, 1, seed=1)], I8, ({"c": 64, "h": 2, "w": 5},)
    ),
    "mul_map_i8": Sample(tpu.Mul(multiplier=90, rshift=13), [u8(2, 1, 5, 6), i8(2, 70, 5, 6, seed=1)], I8, ({"h": 2},)),
    "mul_constant_i8": Sample(
        tpu.Mul(multiplier=90, rshift=13),
        [i8(2, 7, 5, 6), Fixed(integers(1, 7, 1, 1, dtype="uint8", seed=1), "ui8")],
        I8,
    ),
    "mul_f32": Sample(tpu.Mul(), [f32(2, 70, 5, 6), f32(2, 70, 1, 1, seed=1)], None, ({"c": 64, "h": 1},)),
    "mul_constant_f32": Sample(tpu.Mul(), [f32(1, 4420, 2), Fixed(f32(1, 4420, 2, seed=1))], None, ({"c": 192},)),
    "div_f32": Sample(tpu.Div(), [f32(2, 7, 5, 6), f32(2, 7, 1, 6, low=0.5, seed=1)], None, ({"h": 2},)),
    "div_reverse_f32": Sample(tpu.Div(is_reverse=True), [f32(2, 7, 5, 6, low=0.5), Fixed(f32(1, seed=1))]),
    "mul_const_f32": Sample(tpu.MulConst(const_val=-1.7, do_relu=True), [f32(1, 7, 3, 5)]),
    "mul_shift_i8": Sample(tpu.MulShift(multiplier=100, rshift=6), [i8(1, 70, 3, 5)], I8, ({"c": 64, "h": 1},)),
    "mul_shift_left": Sample(tpu.MulShift(multiplier=3, rshift=-2), [i8(1, 7, 3, 5)], I8),
    "mul_shift_u8": Sample(tpu.MulShift(multiplier=100, rshift=7), [u8(1, 7, 3, 5)], U8),
    "mul_shift_u8_to_i8": Sample(tpu.MulShift(multiplier=100, rshift=7), [u8(1, 7, 3, 5)], I8),
    "mul_shift_u8_to_i8_negative": Sample(tpu.MulShift(multiplier=-100, rshift=7), [u8(1, 7, 3, 5)], I8),
    "mul_shift_i8_to_u8": Sample(tpu.MulShift(multiplier=-100, rshift=6), [i8(1, 7, 3, 5)], U8),
}

_TABLE = integers(1, 1, 1, 256, seed=9)


def _channel_tables(channels: int) -> np.ndarray:
    """A table for each channel, all different."""
    return np.stack([np.roll(_TABLE.reshape(-1), 3 * channel + 1) for channel in range(channels)])[None, :, None]


ACTIVATIONS = {
    "lut_i8": Sample(tpu.Lut(), [i8(2, 70, 5, 6), Fixed(_TABLE, "si8")], I8, ({"n": 1, "c": 64, "h": 2, "w": 5},)),
    "lut_u8": Sample(tpu.Lut(), [u8(1, 7, 5, 6), Fixed(_TABLE.view(np.uint8), "ui8")], U8),
    "lut_flat": Sample(tpu.Lut(), [i8(3, 100), Fixed(_TABLE, "si8")], I8, ({"c": 64},)),
    "lut_channels": Sample(
        tpu.Lut(), [i8(2, 70, 5, 6), Fixed(_channel_tables(70), "si8")], I8, ({"n": 1, "c": 64, "h": 2, "w": 5},)
    ),
    "lut_channels_wide_plane": Sample(tpu.Lut(), [i8(1, 66, 300, 230), Fixed(_channel_tables(66), "si8")], I8),
    "lut_wide_plane": Sample(tpu.Lut(), [i8(1, 3, 300, 230), Fixed(_TABLE, "si8")], I8, ({"h": 300, "w": 230},)),
    "relu_u8": Sample(tpu.Relu(relu_limit=2.0), [u8(1, 7, 5, 6)], U8),
    "clip_f32": Sample(tpu.Clip(min=-1.0, max=0.5), [f32(2, 70, 5, 6)], None, ({"c": 64},)),
    "clip_i8": Sample(tpu.Clip(min=-1.0, max=0.52), [i8(2, 70, 5, 6)], I8, ({"c": 64},)),
    "leaky_f32": Sample(tpu.LeakyRelu(alpha=0.1), [f32(2, 70, 5, 6)], None, ({"c": 64, "h": 2},)),
    "leaky_steep_f32": Sample(tpu.LeakyRelu(alpha=-2.0), [f32(2, 7, 5, 6)]),
    "prelu_f32": Sample(tpu.PReluOp(), [f32(2, 70, 5, 6), Fixed(f32(1, 70, 1, 1, seed=1))], None, ({"c": 64, "h": 2},)),
    "prelu_i8": Sample(
        tpu.PReluOp(rshift=7, multiplier_pos=90, rshift_pos=6),
        [i8(2, 70, 5, 6), Fixed(integers(1, 70, 1, 1, seed=1), "si8")],
        I8,
        ({"c": 64, "h": 2},),
    ),
    "prelu_plain_u8": Sample(tpu.PReluOp(rshift=6), [i8(1, 7, 5, 6), Fixed(integers(1, 7, 1, 1, seed=1), "si8")], U8),
    **{
        mode.lower(): Sample(tpu.Active(mode=mode), [f32(2, 70, 5, 6, low=-6, high=6)], None, ({"c": 64, "h": 2},))
        for mode in ("SIGMOID", "SILU", "TANH", "EXP", "HSWISH", "ABSVAL", "FLOOR", "CEIL", "ROUND", "SQUARE")
    },
    **{
        mode.lower(): Sample(tpu.Active(mode=mode), [f32(2, 70, 5, 6, low=-9, high=9)], None, ({"c": 64, "h": 2},))
        for mode in ("ERF", "GELU", "TGELU", "SIN", "COS", "SOFT_PLUS", "SOFT_SIGN", "LOG_SIGMOID", "MISH", "SIGN")
    },
    "ln": Sample(tpu.Active(mode="LN"), [np.exp2(f32(2, 70, 5, 6, low=-100, high=100))], None, ({"c": 64, "h": 2},)),
    "ln_near_one": Sample(tpu.Active(mode="LN"), [f32(1, 7, 5, 6, low=0.5, high=1.7)]),
    "ln_extremes": Sample(tpu.Active(mode="LN"), [row(0, 2.0**-126, 1e-30, 1, 3e38)]),
    "rsqrt": Sample(tpu.Active(mode="RSQRT"), [f32(1, 7, 5, 6, low=0.01, high=9)]),
    "erf_extremes": Sample(tpu.Active(mode="ERF"), [row(-1e18, -9, -1e-6, 0, 1e-6, 9, 1e18)]),
    "gelu_extremes": Sample(tpu.Active(mode="GELU"), [row(-1e9, -20, -1e-6, 0, 1e-6, 20)]),
    "mish_extremes": Sample(tpu.Active(mode="MISH"), [row(-1e9, -90, -20, 0, 20, 90)]),
    "soft_plus_extremes": Sample(tpu.Active(mode="SOFT_PLUS"), [row(-1e9, -90, -20, 0, 20, 90)]),
    "sin_far": Sample(tpu.Active(mode="SIN"), [f32(1, 7, 5, 6, low=-2000, high=2000)]),
    "sqrt": Sample(tpu.Active(mode="SQRT"), [f32(1, 7, 5, 6, low=0)]),
    "elu": Sample(tpu.Active(mode="ELU", coeffs=(0.7,)), [f32(1, 7, 5, 6)]),
    "hsigmoid": Sample(tpu.Active(mode="HSIGMOID", coeffs=(0.2, 0.4)), [f32(1, 7, 5, 6)]),
    "sigmoid_extremes": Sample(tpu.Active(mode="SIGMOID"), [row(-1e30, -200, -88, -30, 0, 30, 88, 200, 1e30)]),
    "silu_extremes": Sample(tpu.Active(mode="SILU"), [row(-200, -90, -80, -30, 0, 30, 88, 200)]),
    "tanh_extremes": Sample(tpu.Active(mode="TANH"), [row(-1e30, -50, -9, 0, 9, 50, 1e30)]),
    "exp_low": Sample(tpu.Active(mode="EXP"), [row(-1e30, -200, -87, -50, -1, 0)]),
    "exp_high": Sample(tpu.Active(mode="EXP"), [row(80, 87, 88, 88.5, 88.7)]),
    "softmax": Sample(tpu.Softmax(axis=1), [f32(9, 70, 5), *(None,) * 5], None, ({"c": 1, "w": 2},)),
    "softmax_below": Sample(tpu.Softmax(axis=1), [f32(2, 17, 6, 26), *(None,) * 5], None, ({"n": 1, "w": 1},)),
    "softmax_between": Sample(tpu.Softmax(axis=2, beta=0.5), [f32(1, 4, 16, 128), *(None,) * 5], None, ({"n": 3},)),
    "softmax_last": Sample(tpu.Softmax(axis=-1), [f32(3, 1000, low=-30, high=30), *(None,) * 5]),
    "softmax_rows": Sample(tpu.Softmax(axis=-1), [f32(2, 70, 3, 512), *(None,) * 5]),
    "softmax_masked": Sample(tpu.Softmax(axis=-1), [row(1, 2, -1e9, -3e38, 1.5), *(None,) * 5]),
}

MOVES = {
    "concat_i8": Sample(tpu.Concat(axis=1), [i8(2, 3, 4, 5), i8(2, 70, 4, 5, seed=1), i8(2, 1, 4, 5, seed=2)], I8),
    "concat_last_f32": Sample(tpu.Concat(axis=-1), [f32(2, 3, 4, 5), f32(2, 3, 4, 2, seed=1)]),
    "concat_first_f32": Sample(tpu.Concat(axis=0), [f32(2, 3, 4), f32(1, 3, 4, seed=1)]),
    "slice_i8": Sample(
        tpu.Slice(offset=(0, 1, 0, 1), steps=(1, 2, 1, 2), ends=(2, 9, 4, 9)),
        [i8(2, 9, 4, 9)],
        TensorType((2, 4, 4, 4), I8),
    ),
    "slice_negative_f32": Sample(tpu.Slice(offset=(0, -1, 3), steps=(1, -2, -1), ends=(2, -100, 0)), [f32(2, 7, 5)]),
    "slice_five_f32": Sample(
        tpu.Slice(offset=(0, 1, 0, 1, 1), steps=(1, 2, 1, 1, 2), ends=(2, 5, 4, 3, 9)), [f32(2, 5, 4, 3, 9)]
    ),
    "permute_i8": Sample(tpu.Permute(order=(0, 2, 3, 1)), [i8(2, 9, 4, 5)], TensorType((2, 4, 5, 9), I8)),
    "permute_six_f32": Sample(tpu.Permute(order=(0, 3, 4, 1, 5, 2)), [f32(2, 2, 3, 5, 4, 3)]),
    "pad_i8": Sample(
        tpu.Pad(paddings=(0, 1, 2, 0, 0, 3, 0, 1), val=-7.0), [i8(2, 9, 4, 5)], TensorType((2, 13, 6, 6), I8)
    ),
    "pad_image_i8": Sample(tpu.Pad(paddings=(0, 0, 2, 1, 0, 0, 1, 3), val=-7.0), [i8(2, 70, 4, 5)]),
    "pad_channels_f32": Sample(tpu.Pad(paddings=(0, 0, 0, 0, 0, 80, 0, 0), val=0.5), [f32(2, 9, 4, 5)]),
    "pad_u8": Sample(tpu.Pad(paddings=(0, 0, 0, 5), val=200.0), [u8(7, 9)], TensorType((7, 14), U8)),
    "pad_cut_f32": Sample(tpu.Pad(paddings=(0, -1, 2, 1, -2, 0), val=0.3), [f32(2, 9, 4)]),
    "pad_all_f32": Sample(tpu.Pad(paddings=(1, 1, 1, 1, 1, 1, 1, 1, 1, 1), val=-1.5), [f32(2, 3, 4, 3, 2)]),
    "upsample_i8": Sample(
        tpu.Upsample(scale_h=2, scale_w=2),
        [i8(2, 70, 5, 6)],
        TensorType((2, 70, 10, 12), I8),
        ({"c": 64, "h": 4, "w": 6},),
    ),
    "upsample_f32": Sample(
        tpu.Upsample(scale_h=3, scale_w=1, do_relu=True), [f32(1, 7, 5, 6)], None, ({"h": 3, "w": 5},)
    ),
    "upsample_wide_slots": Sample(
        tpu.Upsample(scale_h=1, scale_w=2),
        [i8(1, 70, 150, 220)],
        TensorType((1, 70, 150, 440), I8),
        ({"c": 70, "h": 150, "w": 440},),
    ),
    "upsample_wide_batches": Sample(
        tpu.Upsample(scale_h=1, scale_w=2),
        [i8(2, 3, 150, 220)],
        TensorType((2, 3, 150, 440), I8),
        ({"n": 2, "h": 150, "w": 440},),
    ),
}

REDUCTIONS = {
    "mean_f32": Sample(tpu.Reduce(axes=(2, 3), mode="ReduceMean"), [f32(2, 70, 5, 6)], None, ({"c": 64},)),
    "mean_channels_f32": Sample(
        tpu.Reduce(axes=(1,), mode="ReduceMean"), [f32(2, 70, 5, 6)], None, ({"n": 1, "c": 7},)
    ),
    "sum_wide_rows_f32": Sample(
        tpu.Reduce(axes=(1,), mode="ReduceSum"), [f32(2, 3, 96, 10)], None, ({"c": 7}, {"n": 1, "w": 4})
    ),
    "max_middle_f32": Sample(tpu.Reduce(axes=(1,), mode="ReduceMax"), [f32(70, 3, 21)], None, ({"c": 64, "w": 8},)),
    "sum_f32": Sample(tpu.Reduce(axes=(-1,), mode="ReduceSum", keepdims=False), [f32(3, 7, 50)]),
    "max_f32": Sample(tpu.Reduce(axes=(0, 1), mode="ReduceMax"), [f32(3, 7, 5)]),
    "min_f32": Sample(tpu.Reduce(axes=(2,), mode="ReduceMin"), [f32(3, 7, 50)], None, ({"c": 2},)),
    "l1_f32": Sample(tpu.Reduce(axes=(1, 2), mode="ReduceL1"), [f32(3, 7, 5)]),
    "l2_f32": Sample(tpu.Reduce(axes=(1,), mode="ReduceL2"), [f32(3, 7, 5)], None, ({"c": 2},)),
    "l2_middle_f32": Sample(tpu.Reduce(axes=(1,), mode="ReduceL2"), [f32(70, 5, 9)], None, ({"w": 2},)),
    "mean_i8": Sample(
        tpu.Reduce(axes=(2, 3), mode="ReduceMean", multiplier=1 << 30, rshift=34),
        [i8(2, 70, 5, 6)],
        TensorType((2, 70, 1, 1), I8),
        ({"c": 64},),
    ),
    "sum_u8": Sample(
        tpu.Reduce(axes=(1,), mode="ReduceSum", multiplier=3, rshift=8, keepdims=False),
        [u8(3, 70, 5)],
        TensorType((3, 5), U8),
    ),
    "sum_middle_i8": Sample(
        tpu.Reduce(axes=(1,), mode="ReduceSum", multiplier=3, rshift=8, keepdims=False),
        [i8(70, 5, 21)],
        TensorType((70, 21), I8),
        ({"w": 16},),
    ),
    "max_i8": Sample(tpu.Reduce(axes=(1,), mode="ReduceMax"), [i8(3, 7, 5)], TensorType((3, 1, 5), I8)),
    "avg_pool_i8": Sample(
        tpu.Pool2D(
            pool_mode="Avg",
            kernel_shape=(3, 3),
            strides=(2, 2),
            pads=_PAD1,
            count_include_pad=True,
            multiplier=29,
            rshift=8,
            round_mode="HalfUp",
        ),
        [i8(2, 70, 9, 8)],
        TensorType((2, 70, 5, 4), I8),
        ({"c": 64, "h": 2, "w": 3},),
    ),
    "avg_pool_f32": Sample(tpu.Pool2D(pool_mode="Avg", kernel_shape=(7, 7)), [f32(1, 70, 7, 7)]),
    "max_pool_u8": Sample(
        tpu.Pool2D(pool_mode="Max", kernel_shape=(13, 13), pads=(6, 6, 6, 6)),
        [u8(1, 70, 13, 13)],
        TensorType((1, 70, 13, 13), U8),
        ({"h": 4, "w": 5},),
    ),
    "max_pool_ceil_f32": Sample(
        tpu.Pool2D(pool_mode="Max", kernel_shape=(3, 2), strides=(2, 2), ceil_mode=True),
        [f32(1, 7, 8, 9)],
        None,
        ({"h": 2},),
    ),
}

ALL = {
    "convolutions": CONVOLUTIONS,
    "sums": SUMS,
    "products": PRODUCTS,
    "activations": ACTIVATIONS,
    "moves": MOVES,
    "reductions": REDUCTIONS,
}
