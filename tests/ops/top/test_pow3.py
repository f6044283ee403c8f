"""top.Pow3."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestPow3(OpConformance):
    op = top.Pow3()
    reference = onnx_node("Pow")
    samples = ([uniform(2, 3, low=0.1, high=3), uniform(3, low=-2, high=2)],)
    flops = 4
