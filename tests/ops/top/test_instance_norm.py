"""top.InstanceNorm."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestInstanceNorm(OpConformance):
    op = top.InstanceNorm(eps=1e-3)
    reference = onnx_node("InstanceNormalization", epsilon=1e-3)
    samples = ([uniform(2, 3, 4, 5), uniform(3), uniform(3, seed=1)],)
    flops = 8
