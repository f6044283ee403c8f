"""tpu.Reduce and tpu.Div."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, integers, onnx_node, quantized, quantized_element, uniform

from tests.ops.tpu import plain

AXES = np.array([1], np.int64)


class TestReduceMean(OpConformance):
    op = tpu.Reduce(axes=(1,), mode="ReduceMean")
    reference = onnx_node("ReduceMean", inputs=[0, AXES], keepdims=1)
    samples = ([uniform(2, 3, 4)],)
    flops = 3


class TestReduceMeanOfIntegers(OpConformance):
    op = tpu.Reduce(axes=(1,), mode="ReduceMean", keepdims=False, multiplier=5, rshift=4)
    result = quantized_element("int8", 0.3, 2)

    @staticmethod
    def reference(q: Array) -> Array:
        sums = [[sum(int(q[n, c, i]) - 3 for c in range(q.shape[1])) for i in range(q.shape[2])] for n in range(len(q))]
        rows = [[plain.saturated(plain.half_up(plain.scaled(s, 5, 4)) + 2, "int8") for s in row] for row in sums]
        return np.array(rows, np.int8)

    samples = ([quantized(integers(2, 3, 40), 0.25, 3)],)
    flops = 3


class TestReduceMaxOfIntegers(OpConformance):
    op = tpu.Reduce(axes=(0, 2), mode="ReduceMax")
    reference = onnx_node("ReduceMax", inputs=[0, np.array([0, 2], np.int64)], keepdims=1)
    result = quantized_element("int8", 0.25)
    samples = ([quantized(integers(2, 3, 4), 0.25)],)
    flops = 2 * 4


class TestDiv(OpConformance):
    op = tpu.Div()
    reference = onnx_node("Div")
    samples = ([uniform(2, 3, 4), uniform(3, 1, low=0.5, high=2)],)
    flops = 1


class TestDivReverse(OpConformance):
    op = tpu.Div(is_reverse=True)
    reference = onnx_node("Div", inputs=[1, 0])
    samples = ([uniform(2, 3, low=0.5, high=2), uniform(1, seed=1)],)
    flops = 1


def test_integers_have_sums_means_and_maxima_only() -> None:
    with pytest.raises(ValueError, match="mode ReduceL2 has no integer form"):
        tpu.Reduce(axes=(1,), mode="ReduceL2").infer((quantized(integers(2, 3), 0.5).type,))


def test_division_is_for_floats() -> None:
    with pytest.raises(ValueError, match="floats are needed, an operand stores i8"):
        tpu.Div().infer((quantized(integers(2, 3), 0.5).type,) * 2)
