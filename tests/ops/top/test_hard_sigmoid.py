"""top.HardSigmoid."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node


class TestHardSigmoid(OpConformance):
    op = top.HardSigmoid(alpha=0.25, beta=0.4)
    reference = onnx_node("HardSigmoid", alpha=0.25, beta=0.4)
    samples = ([f32(-7, -0.5, 0, 1, 3)],)
    flops = 4
