"""top.Clip."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node


class TestClip(OpConformance):
    op = top.Clip(min=-1.0, max=1.0)
    reference = onnx_node("Clip", min=-1.0, max=1.0)
    samples = ([f32(-7, -1, -0.5, 0, 1, 1.25)],)
    flops = 2
