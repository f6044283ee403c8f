"""top.Tanh."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops.top.tanh import Tanh


class TestTanh(OpConformance):
    op = Tanh()
    reference = onnx_node("Tanh")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
