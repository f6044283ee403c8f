"""top.InstanceNorm."""

from __future__ import annotations

from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops.top.instance_norm import InstanceNorm


class TestInstanceNorm(OpConformance):
    op = InstanceNorm(eps=1e-3)
    reference = onnx_node("InstanceNormalization", epsilon=1e-3)
    samples = ([uniform(2, 3, 4, 5), uniform(3), uniform(3, seed=1)],)
