"""top.Det."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestDet(OpConformance):
    op = top.Det()
    reference = onnx_node("Det")
    samples = [uniform(2, 3, 3)], [uniform(4, 4)]
    flops = (2 * 2 * 3**3 // 3, 2 * 4**3 // 3)
