"""top.Exp."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestExp(OpConformance):
    op = top.Exp()
    reference = onnx_node("Exp")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
    flops = 4
