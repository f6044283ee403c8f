"""tpu.MatMul."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tpuc.api import ABSENT, Node, ScalarType, TensorType
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, integers, onnx_node, quantized, quantized_element, uniform

from tests.ops.tpu import plain

I8, I32 = ScalarType("i8"), ScalarType("i32")


class TestMatMul(OpConformance):
    op = tpu.MatMul(right_transpose=True)
    reference = onnx_node("Gemm", inputs=(0, 1, 2), transB=1)
    samples = ([uniform(3, 4), uniform(5, 4), uniform(5), None, None],)
    flops = 2 * 4 + 1


class TestMatMulOfIntegers(OpConformance):
    op = tpu.MatMul(multipliers=(1,), rshifts=(8,), round_mode="HalfUp")
    result = quantized_element("int8", 0.25)

    @staticmethod
    def reference(left: Array, right: Array, *_rest: Array) -> Array:
        return np.floor(left.astype(int) @ right.astype(int) / 256 + 0.5).clip(-128, 127).astype(np.int8)

    samples = ([quantized(integers(2, 3, 4), 0.5), integers(4, 5, seed=1), None, None, None],)
    flops = 2 * 4


@settings(max_examples=40)
@given(st.data())
def test_integers_are_exact(data: st.DataObject) -> None:
    draw = data.draw
    m, k, n = (draw(st.integers(1, 4)) for _ in range(3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype_in, dtype_out = draw(st.sampled_from(["int8", "uint8"])), draw(st.sampled_from(["int8", "uint8"]))
    left = integers(m, k, dtype=dtype_in, seed=draw(st.integers(0, 99)))
    right = integers(k, n, seed=draw(st.integers(0, 99)))
    bias = rng.integers(-5000, 5000, (1, n)).astype(np.int32)
    count = draw(st.sampled_from([1, n]))
    op = tpu.MatMul(
        left_transpose=draw(st.booleans()),
        right_transpose=draw(st.booleans()),
        multipliers=tuple(int(value) for value in rng.integers(1, 2**31 - 1, count)),
        rshifts=tuple(int(value) for value in rng.integers(30, 44, count)),
        round_mode=draw(st.sampled_from(sorted(plain.ROUNDINGS))),
        input_zp=draw(st.integers(-3, 3)),
        right_zp=draw(st.integers(-3, 3)),
        do_relu=draw(st.booleans()),
    )
    zero = draw(st.integers(0, 9))
    result = TensorType((m, n), quantized_element(dtype_out, 0.125, zero))
    arrays = [left.T if op.left_transpose else left, right.T if op.right_transpose else right, bias]
    source = quantized_element(dtype_in, 0.5)
    types = (
        TensorType(arrays[0].shape, source),
        TensorType(arrays[1].shape, I8),
        TensorType(bias.shape, I32),
        ABSENT,
        ABSENT,
    )
    absent = np.zeros(0, np.float32)
    (y,) = op.evaluate(Node(op, types, (result,)), [*arrays, absent, absent])
    for i, j in itertools.product(range(m), range(n)):
        total = sum((int(left[i, d]) - op.input_zp) * (int(right[d, j]) - op.right_zp) for d in range(k))
        factor = plain.scaled(total + int(bias[0, j]), op.multipliers[j % count], op.rshifts[j % count])
        q = plain.saturated(plain.ROUNDINGS[op.round_mode](factor) + zero, dtype_out)
        assert y[i, j] == (max(q, zero) if op.do_relu else q)


def test_sums_without_multipliers_are_int32() -> None:
    types = (TensorType((2, 3), I8), TensorType((3, 4), I8))
    assert tpu.MatMul().infer(types) == (TensorType((2, 4), I32),)
