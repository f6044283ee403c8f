"""top.Gather."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform


class TestGather(OpConformance):
    op = top.Gather(axis=1)
    reference = onnx_node("Gather", axis=1)
    samples = ([uniform(2, 5, 3), np.array([[0, 4], [-1, 2]])], [uniform(2, 5), np.array(3)])
    flops = 0


class TestGatherOfOne(OpConformance):
    op = top.Gather(axis=-1, keepdims=False)

    @staticmethod
    def reference(x: Array, indices: Array) -> Array:
        return x[..., int(indices[0])]

    samples = ([uniform(2, 5), np.array([3.0], np.float32)],)
    flops = 0
