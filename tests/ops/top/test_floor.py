"""top.Floor."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops.top.floor import Floor


class TestFloor(OpConformance):
    op = Floor()
    reference = onnx_node("Floor")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
