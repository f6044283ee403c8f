"""top.ScatterND."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node, uniform


class TestReplace(OpConformance):
    op = top.ScatterND()
    reference = onnx_node("ScatterND")
    samples = [f32(1, 2, 3, 4), np.array([[3], [1]]), f32(9, 8)], [uniform(3, 4), np.array([[-1]]), uniform(1, 4)]
    flops = 0


class TestMul(OpConformance):
    op = top.ScatterND(reduction="mul")
    reference = onnx_node("ScatterND", reduction="mul")
    samples = ([f32(1, 2, 3, 4), np.array([[3], [3]]), f32(9, 8)],)
    flops = (2,)
