"""top.GroupNorm."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestGroupNorm(OpConformance):
    op = top.GroupNorm(num_groups=2, eps=1e-3)
    reference = onnx_node("GroupNormalization", epsilon=1e-3, num_groups=2)
    samples = ([uniform(2, 6, 4, 5), uniform(6), uniform(6, seed=1)],)
    flops = 8
