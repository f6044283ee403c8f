"""top.Arccosh."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops.top.arccosh import Arccosh


class TestArccosh(OpConformance):
    op = Arccosh()
    reference = onnx_node("Acosh")
    samples = ([uniform(2, 3, 5, low=1, high=9)],)
