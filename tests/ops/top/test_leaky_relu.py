"""top.LeakyRelu."""

from __future__ import annotations

from tpuc.testing import OpConformance, f32, onnx_node
from tpuc_ops.top.leaky_relu import LeakyRelu


class TestLeakyRelu(OpConformance):
    op = LeakyRelu(alpha=0.67)
    reference = onnx_node("LeakyRelu", alpha=0.67)
    samples = ([f32(-7, -0.5, 0, 3)],)
