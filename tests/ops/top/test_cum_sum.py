"""top.CumSum."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestCumSum(OpConformance):
    op = top.CumSum(axis=1)
    reference = onnx_node("CumSum", inputs=(0, np.array(1)))
    samples = ([uniform(2, 5, 3)],)
    flops = 1


class TestExclusive(OpConformance):
    op = top.CumSum(axis=2, exclusive=True)
    reference = onnx_node("CumSum", inputs=(0, np.array(2)), exclusive=1)
    samples = ([uniform(2, 5, 3)],)
    flops = 1


class TestReverse(OpConformance):
    op = top.CumSum(axis=0, exclusive=True, reverse=True)
    reference = onnx_node("CumSum", inputs=(0, np.array(0)), exclusive=1, reverse=1)
    samples = ([uniform(4, 3)],)
    flops = 1
