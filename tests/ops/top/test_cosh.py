"""top.Cosh."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestCosh(OpConformance):
    op = top.Cosh()
    reference = onnx_node("Cosh")
    samples = ([uniform(2, 3, 5, low=-4, high=4)],)
    flops = 4
