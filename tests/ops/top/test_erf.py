"""top.Erf."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops.top.erf import Erf


class TestErf(OpConformance):
    op = Erf()
    reference = onnx_node("Erf")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
