"""tpu.Scale, tpu.Clip, tpu.Depth2Space and tpu.Deconv."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import Node, ScalarType, TensorType
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, integers, onnx_node, quantized, quantized_element, uniform

from tests.ops.tpu import plain

I8, I32 = ScalarType("i8"), ScalarType("i32")


class TestScale(OpConformance):
    op = tpu.Scale()

    @staticmethod
    def reference(x: Array, scale: Array, bias: Array, _lshift: Array) -> Array:
        return x * scale[:, None] + bias[:, None]

    samples = ([uniform(2, 3, 4), uniform(3), uniform(3, seed=1), None],)
    flops = 2


class TestClip(OpConformance):
    op = tpu.Clip(min=-1.0, max=0.5)
    reference = onnx_node("Clip", min=-1.0, max=0.5)
    samples = ([uniform(2, 3, low=-2, high=2)],)
    flops = 2


class TestClipOfIntegers(OpConformance):
    op = tpu.Clip(min=-1.0, max=0.5)

    @staticmethod
    def reference(q: Array) -> Array:
        return q.clip(3 - 4, 3 + 2)

    samples = ([quantized(integers(2, 30), 0.25, 3)],)
    flops = 2


class TestDepth2Space(OpConformance):
    op = tpu.Depth2Space(block_h=2, block_w=2, is_CRD=False, is_inversed=False)
    reference = onnx_node("DepthToSpace", blocksize=2, mode="DCR")
    samples = ([quantized(integers(1, 8, 2, 3), 0.5)],)
    flops = 0


class TestDeconv(OpConformance):
    op = tpu.Deconv(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), output_padding=(1, 1))

    @staticmethod
    def reference(x: Array, w: Array, b: Array) -> Array:
        node = onnx_node("ConvTranspose", strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
        return node(x, w.swapaxes(0, 1), b)[0]

    samples = ([uniform(2, 3, 5, 4), uniform(2, 3, 3, 3), uniform(2)],)
    flops = 2 * 3 * 9 + 1


@given(zero=st.integers(-9, 9), result_zero=st.integers(-9, 9), seed=st.integers(0, 99))
def test_scale_of_integers_is_exact(zero: int, result_zero: int, seed: int) -> None:
    x, scale = integers(1, 3, 4, seed=seed), integers(3, seed=seed)
    bias, lshift = integers(3, dtype="int16", seed=seed), -(integers(3, dtype="uint8", seed=seed) % 14).astype(np.int8)
    elements = (quantized_element("int8", 1.0, zero), I8, ScalarType("i16"), I8)
    types = tuple(TensorType(a.shape, e) for a, e in zip((x, scale, bias, lshift), elements, strict=True))
    result = TensorType(x.shape, quantized_element("int8", 1.0, result_zero))
    (y,) = tpu.Scale().evaluate(Node(tpu.Scale(), types, (result,)), [x, scale, bias, lshift])
    for c, i in np.ndindex(3, 4):
        total = (int(x[0, c, i]) - zero) * int(scale[c]) + int(bias[c])
        q = plain.half_up(Fraction(total, 2 ** -int(lshift[c])))
        assert y[0, c, i] == plain.saturated(q + result_zero, "int8")


def test_deconv_of_integers_is_exact() -> None:
    x, w, bias = integers(1, 4, 3, 2), integers(3, 4, 2, 3), integers(6, dtype="int16").astype(np.int32)
    op = tpu.Deconv(kernel_shape=(2, 3), strides=(2, 1), group=2, multiplier=(77,) * 6, rshift=(14,) * 6)
    types = (TensorType(x.shape, quantized_element("int8", 1.0)), TensorType(w.shape, I8), TensorType((6,), I32))
    inferred = op.infer(types)
    assert inferred is not None
    result = inferred[0].with_element(quantized_element("int8", 1.0, 4))
    (y,) = op.evaluate(Node(op, types, (result,)), [x, w, bias])
    sums = np.zeros(result.dims, object)
    sums[:] = bias.reshape(-1, 1, 1)
    for c, i, j, o, a, b in np.ndindex(4, 3, 2, 3, 2, 3):
        group = c // 2
        sums[0, group * 3 + o, 2 * i + a, j + b] += int(x[0, c, i, j]) * int(w[o, c, a, b])
    for place in np.ndindex(*result.dims):
        q = plain.half_up(plain.scaled(int(sums[place]), 77, 14))
        assert y[place] == plain.saturated(q + 4, "int8")


def test_deconv_of_integers_needs_zero_point_zero() -> None:
    one = np.ones((1, 1, 1, 1), np.int8)
    types = (TensorType(one.shape, quantized_element("int8", 1.0, 3)), TensorType(one.shape, I8))
    op = tpu.Deconv(kernel_shape=(1, 1))
    with pytest.raises(ValueError, match="a transposed convolution of integers needs zero point 0"):
        op.evaluate(Node(op, types, types[1:]), [one, one])
