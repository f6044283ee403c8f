"""top.MaxConst."""

from __future__ import annotations

from tpuc.testing import OpConformance, f32, onnx_node, uniform
from tpuc_ops.top.max_const import MaxConst


class TestMaxConst(OpConformance):
    op = MaxConst(const_val=0.25)
    reference = onnx_node("Max", inputs=(0, f32(0.25)))
    samples = ([uniform(2, 3)],)
