"""top.Div."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node, uniform


class TestDiv(OpConformance):
    op = top.Div()
    reference = onnx_node("Div")
    samples = [uniform(2, 3, 4), uniform(3, 1, low=0.5)], [f32(1, 9), f32(4, -3)]
    flops = 1


class TestDivReversed(OpConformance):
    op = top.Div(is_reverse=True)
    reference = onnx_node("Div", inputs=(1, 0))
    samples = ([uniform(2, 3, low=0.5), uniform(3)],)
    flops = 1
