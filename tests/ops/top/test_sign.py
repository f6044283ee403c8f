"""top.Sign."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node


class TestSign(OpConformance):
    op = top.Sign()
    reference = onnx_node("Sign")
    samples = ([f32(-2, 0, 3)],)
    flops = 1
