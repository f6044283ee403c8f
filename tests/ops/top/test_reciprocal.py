"""top.Reciprocal."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node, uniform


class TestReciprocal(OpConformance):
    op = top.Reciprocal()
    reference = onnx_node("Reciprocal")
    samples = ([uniform(2, 3, 4, low=0.5)],)
    flops = 1


class TestReciprocalOfAnotherNumber(OpConformance):
    op = top.Reciprocal(const_val=-3.0)
    reference = onnx_node("Div", inputs=(f32(-3), 0))
    samples = ([uniform(2, 3, 4, low=0.5)],)
    flops = 1
