"""top.GatherND."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestGatherND(OpConformance):
    op = top.GatherND()
    reference = onnx_node("GatherND")
    samples = [uniform(2, 5, 3), np.array([[0, 4], [-1, 2]])], [uniform(4, 3), np.array([[[2]], [[0]]])]
    flops = 0


class TestWithBatch(OpConformance):
    op = top.GatherND(batch_dims=1)
    reference = onnx_node("GatherND", batch_dims=1)
    samples = ([uniform(2, 5, 3), np.array([[4, 1], [0, 2]])],)
    flops = 0
