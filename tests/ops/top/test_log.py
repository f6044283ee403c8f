"""top.Log."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops import top


class TestLog(OpConformance):
    op = top.Log()
    reference = onnx_node("Log")
    samples = ([uniform(2, 3, low=0.1, high=9)],)
    flops = 4
