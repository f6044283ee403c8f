"""top.Round."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node


class TestRound(OpConformance):
    op = top.Round()
    reference = onnx_node("Round")
    samples = ([f32(-2.5, -1.5, -0.4, 0.5, 1.5, 2.6)],)
    flops = 1
