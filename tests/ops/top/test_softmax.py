"""top.Softmax."""

from __future__ import annotations

import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, f32, onnx_node, uniform


class TestSoftmax(OpConformance):
    op = top.Softmax(axis=1)
    reference = onnx_node("Softmax", axis=1)
    samples = [uniform(2, 3, 4, low=-9, high=9)], [f32([[1e4, 1e4 - 1, -1e4]])]
    flops = 5


class TestLogSoftmax(OpConformance):
    op = top.Softmax(axis=-1, log=True)
    reference = onnx_node("LogSoftmax", axis=-1)
    samples = ([uniform(2, 3, 4, low=-9, high=9)],)
    flops = 5


class TestSoftmaxWithBeta(OpConformance):
    op = top.Softmax(beta=0.25)

    @staticmethod
    def reference(x: Array) -> Array:
        return onnx_node("Softmax", axis=-1)(x / 4)

    samples = ([uniform(3, 5, low=-9, high=9)],)
    flops = 5


def test_an_axis_beyond_the_dimensions_is_refused() -> None:
    with pytest.raises(ValueError, match=r"axis must be in -2..1 for 2 dimensions, this one is 2"):
        top.Softmax(axis=2).infer((TensorType((2, 3), F32),))
