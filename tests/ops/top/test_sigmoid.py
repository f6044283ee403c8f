"""top.Sigmoid."""

from __future__ import annotations

import math

import numpy as np
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, f32, onnx_node, uniform


class TestSigmoid(OpConformance):
    op = top.Sigmoid()
    reference = onnx_node("Sigmoid")
    samples = [uniform(2, 3, 4, low=-9, high=9)], [f32(-88, 0, 88)]
    flops = 4


class TestSigmoidScaled(OpConformance):
    op = top.Sigmoid(scale=2.0, bias=-1.0)

    @staticmethod
    def reference(x: Array) -> Array:
        return np.tanh(x / 2)

    samples = ([uniform(2, 3, 4, low=-9, high=9)],)
    flops = 4


class TestLogSigmoid(OpConformance):
    op = top.Sigmoid(log=True)

    @staticmethod
    def reference(x: Array) -> Array:
        return np.array([-math.log1p(math.exp(-value)) for value in x.tolist()])

    samples = ([f32(-200, -1, 0, 1, 20)],)
    flops = 4


def test_no_overflow_far_from_zero() -> None:
    assert top.Sigmoid().function(f32(-1e4, 1e4)).tolist() == [0.0, 1.0]
