"""top.GatherElements."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestGatherElements(OpConformance):
    op = top.GatherElements(axis=1)
    reference = onnx_node("GatherElements", axis=1)
    samples = ([uniform(2, 5, 3), np.array([[[0, 4, 1], [-1, 2, 3]], [[1, 1, 0], [2, -5, 4]]])],)
    flops = 0
