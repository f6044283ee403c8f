"""top.Arccosh."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestArccosh(OpConformance):
    op = top.Arccosh()
    reference = onnx_node("Acosh")
    samples = ([uniform(2, 3, 5, low=1, high=9)],)
    flops = 4
