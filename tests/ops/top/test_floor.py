"""top.Floor."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestFloor(OpConformance):
    op = top.Floor()
    reference = onnx_node("Floor")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
    flops = 1
