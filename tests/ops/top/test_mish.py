"""top.Mish."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestMish(OpConformance):
    op = top.Mish()
    reference = onnx_node("Mish")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
    flops = 6
