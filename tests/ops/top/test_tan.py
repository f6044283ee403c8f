"""top.Tan."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops.top.tan import Tan


class TestTan(OpConformance):
    op = Tan()
    reference = onnx_node("Tan")
    samples = ([uniform(2, 3, 5, low=-1.4, high=1.4)],)
