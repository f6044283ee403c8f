"""top.Cos."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestCos(OpConformance):
    op = top.Cos()
    reference = onnx_node("Cos")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
    flops = 4
