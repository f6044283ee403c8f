"""top.Arctanh."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestArctanh(OpConformance):
    op = top.Arctanh()
    reference = onnx_node("Atanh")
    samples = ([uniform(2, 3, 5, low=-0.99, high=0.99)],)
    flops = 4
