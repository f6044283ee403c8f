"""top.Sinh."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops.top.sinh import Sinh


class TestSinh(OpConformance):
    op = Sinh()
    reference = onnx_node("Sinh")
    samples = ([uniform(2, 3, 5, low=-4, high=4)],)
