"""top.LeakyRelu."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node


class TestLeakyRelu(OpConformance):
    op = top.LeakyRelu(alpha=0.67)
    reference = onnx_node("LeakyRelu", alpha=0.67)
    samples = ([f32(-7, -0.5, 0, 3)],)
    flops = 1
