"""top.HardSwish."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops.top.hard_swish import HardSwish


class TestHardSwish(OpConformance):
    op = HardSwish()
    reference = onnx_node("HardSwish")
    samples = ([uniform(2, 30, low=-5, high=5)],)
