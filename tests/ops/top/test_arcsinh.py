"""top.Arcsinh."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestArcsinh(OpConformance):
    op = top.Arcsinh()
    reference = onnx_node("Asinh")
    samples = ([uniform(2, 3, 5, low=-9, high=9)],)
    flops = 4
