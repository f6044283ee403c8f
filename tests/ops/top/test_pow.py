"""top.Pow."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node, uniform


class TestPow(OpConformance):
    op = top.Pow(exponent=1.5)
    reference = onnx_node("Pow", inputs=(0, f32(1.5)))
    samples = ([uniform(2, 3, 4, low=0, high=3)],)
    flops = 4


class TestSquare(OpConformance):
    op = top.Pow(exponent=2.0)
    reference = onnx_node("Pow", inputs=(0, f32(2)))
    samples = ([uniform(2, 3, 4)],)
    flops = 4
