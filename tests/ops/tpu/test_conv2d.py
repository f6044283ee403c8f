"""tpu.Conv2D."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tpuc.api import BF16, F32, Node, ScalarType, TensorType, Uniform
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, integers, onnx_node, quantized, quantized_element, uniform

from tests.ops.tpu import plain

I8, I32 = ScalarType("i8"), ScalarType("i32")


class TestConv2D(OpConformance):
    op = tpu.Conv2D(kernel_shape=(3, 2), strides=(2, 1), pads=(0, 1, 3, 2), group=2)
    reference = onnx_node("Conv", strides=[2, 1], pads=[0, 1, 3, 2], group=2)
    samples = [uniform(2, 6, 9, 8), uniform(4, 3, 3, 2), uniform(4)], [uniform(1, 2, 3, 3), uniform(2, 1, 3, 2), None]
    flops = (2 * 4 * 5 * 10 * (2 * 3 * 6 + 1), 2 * 10 * 2 * 6)


class TestConv2DInBf16(OpConformance):
    op = tpu.Conv2D(kernel_shape=(1, 1), do_relu=True)

    @staticmethod
    def reference(x: Array, w: Array) -> Array:
        wide = np.einsum("nchw,oc->nohw", x.astype(np.float64), w.astype(np.float64).reshape(w.shape[:2]))
        return wide.clip(0).astype(ml_dtypes.bfloat16)

    samples = ([uniform(1, 3, 4, 4).astype(ml_dtypes.bfloat16), uniform(2, 3, 1, 1).astype(ml_dtypes.bfloat16)],)
    flops = 2 * 3 + 1
    rtol = 2.0**-8  # one step of bf16, where the float32 sum lies beside a tie


class TestConv2DOfIntegers(OpConformance):
    op = tpu.Conv2D(kernel_shape=(1, 1), multiplier=(1,), rshift=(4,))
    result = quantized_element("int8", 0.25)

    @staticmethod
    def reference(x: Array, w: Array) -> Array:
        sums = np.einsum("nchw,oc->nohw", x.astype(int), w.astype(int).reshape(w.shape[:2]))
        return np.floor(sums / 16 + 0.5).clip(-128, 127).astype(np.int8)

    samples = ([quantized(integers(1, 3, 4, 4), 0.5), integers(2, 3, 1, 1, seed=1) // 16],)
    flops = 2 * 3


def run(op: tpu.Conv2D, x: Array, w: Array, bias: Array | None, source: Uniform, result: TensorType) -> Array:
    arrays = [x, w, np.zeros(0, np.float32) if bias is None else bias]
    types = (TensorType(x.shape, source), TensorType(w.shape, I8), TensorType(arrays[2].shape, I32))
    (y,) = op.evaluate(Node(op, types, (result,)), arrays)
    return y


@settings(max_examples=60)
@given(st.data())
def test_integers_are_exact(data: st.DataObject) -> None:
    draw = data.draw
    group, depth, per_group = (draw(st.integers(1, 2)) for _ in range(3))
    kernel, strides, dilations = ((draw(st.integers(1, 2)), draw(st.integers(1, 3))) for _ in range(3))
    pads = tuple(draw(st.integers(0, 2)) for _ in range(4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype_in, dtype_out = draw(st.sampled_from(["int8", "uint8"])), draw(st.sampled_from(["int8", "uint8"]))
    size = [(kernel[axis] - 1) * dilations[axis] + 1 + draw(st.integers(0, 2)) for axis in (0, 1)]
    oc = group * per_group
    x = integers(1, group * depth, *size, dtype=dtype_in, seed=draw(st.integers(0, 99)))
    w = integers(oc, depth, *kernel, seed=draw(st.integers(0, 99)))
    bias = rng.integers(-5000, 5000, (1, oc, 1, 1)).astype(np.int32) if draw(st.booleans()) else None
    zero_in, zero_out, kernel_zp = (draw(st.integers(0, 9)) for _ in range(3))
    multiplier = tuple(int(m) for m in rng.integers(1, 2**31 - 1, oc))
    rshift = tuple(int(s) for s in rng.integers(30, 44, oc))
    rounding = draw(st.sampled_from(sorted(plain.ROUNDINGS)))
    limit = draw(st.sampled_from([-1.0, 6.0]))
    op = tpu.Conv2D(
        kernel_shape=kernel,
        strides=strides,
        pads=pads,
        dilations=dilations,
        group=group,
        kernel_zp=kernel_zp,
        multiplier=multiplier,
        rshift=rshift,
        round_mode=rounding,
        do_relu=draw(st.booleans()),
        relu_limit=limit,
    )
    element = quantized_element(dtype_out, 0.125, zero_out)
    sums = plain.conv(x, w.astype(int) - kernel_zp, strides, pads, dilations, group, zero_in)
    shape = tuple(extent + 1 for extent in sums[-1][0])
    y = run(op, x, w, bias, quantized_element(dtype_in, 0.5, zero_in), TensorType(shape, element))
    assert y.dtype == dtype_out
    for place, total in sums:
        o = place[1]
        total += 0 if bias is None else int(bias[0, o, 0, 0])
        q = plain.ROUNDINGS[rounding](plain.scaled(total, multiplier[o], rshift[o])) + zero_out
        q = plain.saturated(q, dtype_out)
        if op.do_relu:
            q = max(q, zero_out)
            if limit > 0:
                q = min(q, plain.half_away(Fraction(limit) / Fraction(0.125)) + zero_out)
        assert y[place] == q


def test_quantized_down_multiply_rounds_twice() -> None:
    # (7 * 2**30 + 2**30) >> 31 = 4, then 4 / 2**3 = 0.5: half away from zero gives 1, half up of -0.5 gives 0.
    op = tpu.Conv2D(
        kernel_shape=(1, 1), quant_mode="QDM", multiplier=(2**30,), rshift=(3,), round_mode="HalfAwayFromZero"
    )
    x = np.array([7, -9, 5], np.int8).reshape(1, 1, 1, 3)
    y = run(op, x, np.ones((1, 1, 1, 1), np.int8), None, quantized_element("int8", 1.0), TensorType((1, 1, 1, 3), I8))
    assert y.reshape(-1).tolist() == [1, -1, 0]


def test_sums_without_multipliers_are_int32() -> None:
    op = tpu.Conv2D(kernel_shape=(1, 1))
    x, w = integers(1, 5, 2, 2), integers(3, 5, 1, 1)
    types = (TensorType(x.shape, I8), TensorType(w.shape, I8))
    (result,) = op.infer(types) or ()
    assert result == TensorType((1, 3, 2, 2), I32)
    (y,) = op.evaluate(Node(op, types, (result,)), [x, w])
    assert y.dtype == np.int32
    assert all(y[place] == total for place, total in plain.conv(x, w, (1, 1), (0,) * 4, (1, 1), 1, 0))


def test_bias_beyond_int32_saturates() -> None:
    op = tpu.Conv2D(kernel_shape=(1, 1), multiplier=(1,), rshift=(24,))
    x, w = np.full((1, 1, 1, 1), 127, np.int8), np.full((1, 1, 1, 1), 127, np.int8)
    bias = np.array([2**31 - 1], np.int32)
    y = run(op, x, w, bias, quantized_element("int8", 1.0), TensorType((1, 1, 1, 1), I8))
    assert y.item() == saturated_quotient(2**31 - 1)


def saturated_quotient(total: int) -> int:
    return plain.saturated(plain.half_up(Fraction(total, 1 << 24)), "int8")


def test_long_sums_are_exact_where_float32_is_not() -> None:
    depth = 4000  # 4000 * 127 * 127 is beyond 2**24
    x, w = np.full((1, depth, 1, 1), 127, np.int8), np.full((1, depth, 1, 1), 127, np.int8)
    w[0, 0] = 126
    op = tpu.Conv2D(kernel_shape=(1, 1))
    y = run(op, x, w, None, quantized_element("int8", 1.0), TensorType((1, 1, 1, 1), I32))
    assert y.item() == 127 * (127 * (depth - 1) + 126)


def test_a_filter_in_the_chips_own_order_leaves_the_shape_to_the_declared_type() -> None:
    types = (TensorType((1, 16, 8, 8), F32), TensorType((1, 16, 1, 128), F32))
    assert tpu.Conv2D(kernel_shape=(3, 3)).infer(types) is None


def test_unknown_requantization_is_refused() -> None:
    op = tpu.Conv2D(kernel_shape=(1, 1), quant_mode="OnlyScale", multiplier=(1,), rshift=(1,))
    one = np.ones((1, 1, 1, 1), np.int8)
    with pytest.raises(ValueError, match="quant_mode must be MultiplierShift, OnlyShift, QDM or TFLite"):
        run(op, one, one, None, quantized_element("int8", 1.0), TensorType((1, 1, 1, 1), I8))


def test_bf16_result_is_stored_as_bf16() -> None:
    op = tpu.Conv2D(kernel_shape=(1, 1))
    x, w = np.array(1 + 2**-7), np.array(1 + 2**-7)
    types = (TensorType((1, 1, 1, 1), BF16),) * 2
    arrays = [value.reshape(1, 1, 1, 1).astype(ml_dtypes.bfloat16) for value in (x, w)]
    (y,) = op.evaluate(Node(op, types, types[:1]), arrays)
    assert y.dtype == ml_dtypes.bfloat16
    assert float(y.item()) == 1 + 2**-6  # (1 + 2**-7)**2 = 1 + 2**-6 + 2**-14
    assert math.isfinite(y.item())
