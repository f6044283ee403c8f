"""tpu.Pool2D."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tpuc.api import F32, Node, TensorType
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, integers, onnx_node, quantized, quantized_element, uniform

from tests.families import each
from tests.ops.tpu import plain


class TestAverage(OpConformance):
    op = tpu.Pool2D(kernel_shape=(3, 2), pool_mode="Avg", strides=(2, 1), pads=(1, 1, 0, 1))
    reference = onnx_node("AveragePool", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 0, 1])
    samples = ([uniform(2, 3, 8, 7)],)
    flops = 3 * 2


class TestAverageCountingPadding(OpConformance):
    op = tpu.Pool2D(kernel_shape=(3, 2), pool_mode="Avg", pads=(1, 1, 0, 1), count_include_pad=True)
    reference = onnx_node("AveragePool", kernel_shape=[3, 2], pads=[1, 1, 0, 1], count_include_pad=1)
    samples = ([uniform(2, 3, 8, 7)],)
    flops = 3 * 2


class TestMaximumOfIntegers(OpConformance):
    op = tpu.Pool2D(kernel_shape=(2, 2), pool_mode="Max", strides=(2, 2))

    @staticmethod
    def reference(x: Array) -> Array:
        return x.reshape(1, 3, 4, 2, 3, 2).max((3, 5))

    samples = [quantized(integers(1, 3, 8, 6), 0.5)], [quantized(integers(1, 3, 8, 6, dtype="uint8"), 0.5)]
    flops = 2 * 2


@settings(max_examples=40)
@given(st.data())
def test_integer_averages_are_exact(data: st.DataObject) -> None:
    draw = data.draw
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    strides = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    pads = tuple(draw(st.integers(0, size - 1)) for size in (*kernel, *kernel))
    dtype = draw(st.sampled_from(["int8", "uint8"]))
    x = integers(1, 2, 4, 5, dtype=dtype, seed=draw(st.integers(0, 99)))
    op = tpu.Pool2D(
        kernel_shape=kernel,
        pool_mode="Avg",
        strides=strides,
        pads=pads,
        multiplier=draw(st.integers(1, 255)),
        rshift=draw(st.integers(0, 12)),
        round_mode=draw(st.sampled_from(sorted(plain.ROUNDINGS))),
        do_relu=draw(st.booleans()),
    )
    types = (TensorType(x.shape, quantized_element(dtype, 0.5)),)
    (result,) = op.infer(types)
    (y,) = op.evaluate(Node(op, types, (result.with_element(types[0].element),)), [x])
    ones = np.ones((1, 1, *kernel), np.int8)
    for channel in range(2):
        for place, total in plain.conv(x[:, channel : channel + 1], ones, strides, pads, (1, 1), 1, 0):
            q = plain.saturated(plain.ROUNDINGS[op.round_mode](plain.scaled(total, op.multiplier, op.rshift)), dtype)
            assert y[0, channel, place[2], place[3]] == (max(q, 0) if op.do_relu else q)


@each("mode", ["Max", "Avg"])
def test_padding_of_integers(mode: str) -> None:
    # Padding of a maximum is below everything, that of a sum is zero.
    x = np.array([[[[-5]]]], np.int8)
    op = tpu.Pool2D(kernel_shape=(2, 2), pool_mode=mode, pads=(1, 1, 1, 1))
    type = TensorType((1, 1, 2, 2), quantized_element("int8", 0.5))
    (y,) = op.evaluate(Node(op, (TensorType(x.shape, type.element),), (type,)), [x])
    assert y.reshape(-1).tolist() == [-5] * 4


def test_asymmetric_average_is_scale_times_sum_plus_offset() -> None:
    # By hand: q = (Sx / Sy / taps) * sum + (Zy - Sx / Sy * Zx), in float32.
    source, target = quantized_element("int8", 0.5, 3), quantized_element("int8", 0.25, -7)
    ratio = source.scale / target.scale
    op = tpu.Pool2D(kernel_shape=(2, 2), pool_mode="Avg", strides=(2, 2), scale=ratio / 4, offset=-7 - ratio * 3)
    x = integers(1, 1, 4, 4) // 4
    types = (TensorType(x.shape, source),)
    (y,) = op.evaluate(Node(op, types, (TensorType((1, 1, 2, 2), target),)), [x])
    for i, j in itertools.product(range(2), range(2)):
        window = x[0, 0, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].reshape(-1)
        mean = sum((int(q) - 3) * 0.5 for q in window) / 4
        assert y[0, 0, i, j] == plain.saturated(plain.half_away(plain.Fraction(mean / 0.25 - 7)), "int8")


def test_other_modes_are_refused() -> None:
    with pytest.raises(ValueError, match="pool_mode must be Max or Avg, this one is Sum"):
        tpu.Pool2D(kernel_shape=(1, 1), pool_mode="Sum").infer((TensorType((1, 1, 2, 2), F32),))
