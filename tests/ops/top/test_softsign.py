"""top.Softsign."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops.top.softsign import Softsign


class TestSoftsign(OpConformance):
    op = Softsign()
    reference = onnx_node("Softsign")
    samples = ([uniform(2, 3, 4, low=-3, high=3)],)
