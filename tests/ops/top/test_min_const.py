"""top.MinConst."""

from __future__ import annotations

from tpuc.testing import OpConformance, f32, onnx_node, uniform
from tpuc_ops import top


class TestMinConst(OpConformance):
    op = top.MinConst(const_val=0.25)
    reference = onnx_node("Min", inputs=(0, f32(0.25)))
    samples = ([uniform(2, 3)],)
    flops = 1
