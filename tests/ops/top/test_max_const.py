"""top.MaxConst."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node, uniform


class TestMaxConst(OpConformance):
    op = top.MaxConst(const_val=0.25)
    reference = onnx_node("Max", inputs=(0, f32(0.25)))
    samples = ([uniform(2, 3)],)
    flops = 1
