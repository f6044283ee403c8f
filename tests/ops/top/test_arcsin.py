"""top.Arcsin."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestArcsin(OpConformance):
    op = top.Arcsin()
    reference = onnx_node("Asin")
    samples = ([uniform(2, 3, 5, low=-1, high=1)],)
    flops = 4
