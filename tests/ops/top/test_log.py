"""top.Log."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestLog(OpConformance):
    op = top.Log()
    reference = onnx_node("Log")
    samples = ([uniform(2, 3, low=0.1, high=9)],)
    flops = 4
