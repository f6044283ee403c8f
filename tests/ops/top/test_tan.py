"""top.Tan."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestTan(OpConformance):
    op = top.Tan()
    reference = onnx_node("Tan")
    samples = ([uniform(2, 3, 5, low=-1.4, high=1.4)],)
    flops = 4
