"""top.Abs."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops import top


class TestAbs(OpConformance):
    op = top.Abs()
    reference = onnx_node("Abs")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
    flops = 1
