"""top.Softplus."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestSoftplus(OpConformance):
    op = top.Softplus()
    reference = onnx_node("Softplus")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
    flops = 5
