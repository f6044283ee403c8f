"""top.Softsign."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestSoftsign(OpConformance):
    op = top.Softsign()
    reference = onnx_node("Softsign")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
    flops = 3
