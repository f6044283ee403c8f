"""top.Sinh."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestSinh(OpConformance):
    op = top.Sinh()
    reference = onnx_node("Sinh")
    samples = ([uniform(2, 3, 5, low=-4, high=4)],)
    flops = 4
