"""Products of networks that are quantized already: float factors, and zero points in the bias."""

from __future__ import annotations

import numpy as np
from tpuc.api import Node, ScalarType, TensorType, Uniform
from tpuc_ops import tpu
from tpuc_ops.arrays import Array

I8, I32, F32 = ScalarType("i8"), ScalarType("i32"), ScalarType("f32")
SOURCE, RESULT = Uniform(ScalarType("u8"), F32, 0.5, 3), Uniform(ScalarType("u8"), F32, 0.25, 7)


def conv(op: tpu.Conv2D, x: Array, w: Array, bias: Array) -> list[int]:
    types = (TensorType(x.shape, SOURCE), TensorType(w.shape, I8), TensorType(bias.shape, I32))
    (y,) = op.evaluate(Node(op, types, (TensorType((1, w.shape[0], *x.shape[2:]), RESULT),)), [x, w, bias])
    return y.reshape(-1).tolist()


def matmul(op: tpu.MatMul, x: Array, w: Array, bias: Array) -> list[int]:
    types = (TensorType(x.shape, SOURCE), TensorType(w.shape, I8), TensorType(bias.shape, I32))
    (y,) = op.evaluate(Node(op, types, (TensorType((x.shape[0], w.shape[1]), RESULT),)), [x, w, bias])
    return y.reshape(-1).tolist()


# Halves of 1, 3, 5 and 250 are halves between whole numbers, three times.
SUMS = np.array([1, 3, 5, 250], np.uint8)
ONE, NO_BIAS = np.ones((1, 1, 1, 1), np.int8), np.zeros((1, 1, 1, 1), np.int32)


def test_sums_times_floats() -> None:
    op = tpu.Conv2D(kernel_shape=(1, 1), scales=(0.5,), round_mode="HalfToEven")
    # Rounded first, as QuantizeLinear says: halves of sums are even, whatever the zero point is.
    assert conv(op, SUMS.reshape(1, 1, 2, 2), ONE, NO_BIAS) == [7, 9, 9, 132]
    product = tpu.MatMul(scales=(0.5,), round_mode="HalfToEven")
    rows = matmul(product, SUMS.reshape(4, 1), np.ones((1, 1), np.int8), np.zeros((1, 1), np.int32))
    assert rows == [7, 9, 9, 132]


def test_the_zero_point_does_not_move_what_is_beside_a_half() -> None:
    """12.499998 + 7 is 19.5 in float32, whose last bit is 0.0000019 there and half of that below 16."""
    scale = float(np.nextafter(np.float32(12.5), np.float32(0)))
    op = tpu.Conv2D(kernel_shape=(1, 1), scales=(scale,), round_mode="HalfToEven")
    assert np.float32(scale) + np.float32(7) == np.float32(19.5)
    assert conv(op, np.ones((1, 1, 1, 1), np.uint8), ONE, NO_BIAS) == [19]


def test_a_scale_per_channel() -> None:
    op = tpu.Conv2D(kernel_shape=(1, 1), scales=(0.5, 1.0), round_mode="HalfToEven")
    weights, bias = np.ones((2, 1, 1, 1), np.int8), np.zeros((1, 2, 1, 1), np.int32)
    assert conv(op, np.full((1, 1, 1, 1), 250, np.uint8), weights, bias) == [132, 255]


def test_float_factors_are_single() -> None:
    # 29441 * f32(f) lies below 159.5 by less than float32 says at this size, so that the product is 159.5 itself.
    factor = float(np.float32(0.0078431377) * np.float32(0.016252844) / np.float32(0.023529412))
    bias = np.full((1, 1, 1, 1), 29441, np.int32)
    assert 29441 * factor < 159.5
    assert np.float32(29441) * np.float32(factor) == np.float32(159.5)
    op = tpu.Conv2D(kernel_shape=(1, 1), scales=(factor,), round_mode="HalfToEven")
    x = np.zeros((1, 1, 1, 1), np.uint8)
    types = (TensorType(x.shape, SOURCE), TensorType(ONE.shape, I8), TensorType(bias.shape, I32))
    plain = TensorType((1, 1, 1, 1), Uniform(ScalarType("u8"), F32, 0.25))
    (y,) = op.evaluate(Node(op, types, (plain,)), [x, ONE, bias])
    assert y.item() == 160


def test_the_bias_brings_the_zero_point() -> None:
    fields = {"quant_mode": "QDM", "round_mode": "HalfAwayFromZero"}
    # 7 in units of a half is 14; the sums come out at 1/2 plus 7, halves up, and nothing else is added.
    op = tpu.Conv2D(kernel_shape=(1, 1), multiplier=(1 << 30,), rshift=(0,), offset_in_bias=True, **fields)
    bias = np.full((1, 1, 1, 1), 14, np.int32)
    assert conv(op, SUMS.reshape(1, 1, 2, 2), ONE, bias) == [8, 9, 10, 132]
    product = tpu.MatMul(multipliers=(1 << 30,), rshifts=(0,), offset_in_bias=True, **fields)
    rows = matmul(product, SUMS.reshape(4, 1), np.ones((1, 1), np.int8), np.full((1, 1), 14, np.int32))
    assert rows == [8, 9, 10, 132]
