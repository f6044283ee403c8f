"""top.Relu."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node, zeros


class TestRelu(OpConformance):
    op = top.Relu(relu_limit=6.0)
    reference = onnx_node("Clip", min=0.0, max=6.0)
    samples = [f32(-1, 0, 7)], [zeros(2, 3, 4)]
    flops = 2


class TestReluWithoutLimit(OpConformance):
    op = top.Relu()
    reference = onnx_node("Relu")
    samples = ([f32([[-1.5, 0, 7e9]])],)
    flops = 1
