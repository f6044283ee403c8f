"""top.Max."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestMax(OpConformance):
    op = top.Max()
    reference = onnx_node("Max")
    samples = [uniform(2, 3), uniform(2, 3, seed=1)], [uniform(2, 3), uniform(3), uniform(2, 1)]
    flops = (6, 2 * 6)
