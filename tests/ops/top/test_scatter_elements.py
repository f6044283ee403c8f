"""top.ScatterElements."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node, uniform

INDICES = np.array([[1, 0, 2], [0, 2, 1]])


class TestReplace(OpConformance):
    op = top.ScatterElements(axis=0)
    reference = onnx_node("ScatterElements", axis=0)
    samples = ([uniform(4, 3), INDICES, uniform(2, 3)],)
    flops = 0


class TestAdd(OpConformance):
    op = top.ScatterElements(axis=1, reduction="add")
    reference = onnx_node("ScatterElements", axis=1, reduction="add")
    samples = ([f32([[1, 2, 3, 4, 5]]), np.array([[1, 1, -1]]), f32([[10, 20, 30]])],)
    flops = (3,)


class TestMax(OpConformance):
    op = top.ScatterElements(axis=1, reduction="max")
    reference = onnx_node("ScatterElements", axis=1, reduction="max")
    samples = ([f32([[1, 2, 3, 4, 5]]), np.array([[1, 1, 3]]), f32([[10, 20, 3]])],)
    flops = (3,)
