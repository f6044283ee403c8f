"""top.GELU."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestGelu(OpConformance):
    op = top.GELU()
    reference = onnx_node("Gelu")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
    flops = 8


class TestGeluByTanh(OpConformance):
    op = top.GELU(approx_mode="tanh")
    reference = onnx_node("Gelu", approximate="tanh")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
    flops = 8
