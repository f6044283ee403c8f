"""top.MinConst."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node, uniform


class TestMinConst(OpConformance):
    op = top.MinConst(const_val=0.25)
    reference = onnx_node("Min", inputs=(0, f32(0.25)))
    samples = ([uniform(2, 3)],)
    flops = 1
