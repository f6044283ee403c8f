"""top.Cosh."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops.top.cosh import Cosh


class TestCosh(OpConformance):
    op = Cosh()
    reference = onnx_node("Cosh")
    samples = ([uniform(2, 3, 5, low=-4, high=4)],)
