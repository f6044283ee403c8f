"""top.Ceil."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops.top.ceil import Ceil


class TestCeil(OpConformance):
    op = Ceil()
    reference = onnx_node("Ceil")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
