"""top.LRN."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform

# The reference goes through as many channels as there are samples, so both are equal here.


class TestLRN(OpConformance):
    op = top.LRN(size=3, alpha=0.5, beta=0.6, bias=2.0)
    reference = onnx_node("LRN", size=3, alpha=0.5, beta=0.6, bias=2.0)
    samples = [uniform(5, 5, 4, 3, low=-3, high=3)], [uniform(2, 2, 3, 3)]
    flops = 2 * 3 + 6


class TestLRNOfEvenSize(OpConformance):
    op = top.LRN(size=4)
    reference = onnx_node("LRN", size=4)
    samples = ([uniform(7, 7, 2, 2, low=-30, high=30)],)
    flops = 2 * 4 + 6
