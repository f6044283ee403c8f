"""top.Arcsin."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops.top.arcsin import Arcsin


class TestArcsin(OpConformance):
    op = Arcsin()
    reference = onnx_node("Asin")
    samples = ([uniform(2, 3, 5, low=-1, high=1)],)
