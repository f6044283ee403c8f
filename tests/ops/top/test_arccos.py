"""top.Arccos."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestArccos(OpConformance):
    op = top.Arccos()
    reference = onnx_node("Acos")
    samples = ([uniform(2, 3, 5, low=-1, high=1)],)
    flops = 4
