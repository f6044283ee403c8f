"""top.HardSwish."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestHardSwish(OpConformance):
    op = top.HardSwish()
    reference = onnx_node("HardSwish")
    samples = ([uniform(2, 30, low=-5, high=5)],)
    flops = 5
