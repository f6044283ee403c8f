"""top.Elu."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node


class TestElu(OpConformance):
    op = top.Elu(alpha=0.5)
    reference = onnx_node("Elu", alpha=0.5)
    samples = ([f32(-70, -0.5, 0, 30)],)
    flops = 5
