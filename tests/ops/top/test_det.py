"""top.Det."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops.top.det import Det


class TestDet(OpConformance):
    op = Det()
    reference = onnx_node("Det")
    samples = [uniform(2, 3, 3)], [uniform(4, 4)]
