"""top.Ceil."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestCeil(OpConformance):
    op = top.Ceil()
    reference = onnx_node("Ceil")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
    flops = 1
