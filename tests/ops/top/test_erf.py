"""top.Erf."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops import top


class TestErf(OpConformance):
    op = top.Erf()
    reference = onnx_node("Erf")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
    flops = 4
