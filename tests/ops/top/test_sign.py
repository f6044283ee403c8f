"""top.Sign."""

from __future__ import annotations

from tpuc.testing import OpConformance, f32, onnx_node
from tpuc_ops.top.sign import Sign


class TestSign(OpConformance):
    op = Sign()
    reference = onnx_node("Sign")
    samples = ([f32(-2, 0, 3)],)
