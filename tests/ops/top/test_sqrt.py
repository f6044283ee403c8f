"""top.Sqrt."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestSqrt(OpConformance):
    op = top.Sqrt()
    reference = onnx_node("Sqrt")
    samples = ([uniform(2, 3, low=0, high=9)],)
    flops = 1
