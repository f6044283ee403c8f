"""top.DequantizeLinear."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, f32


class TestPerTensor(OpConformance):
    op = top.DequantizeLinear(x_scale=(0.5,), x_zero_point=(3,))

    @staticmethod
    def reference(_x: Array) -> Array:
        return np.array([-1.5, 0, 62], np.float32)

    samples = ([f32(0, 3, 127)],)
    flops = 2


class TestPerAxis(OpConformance):
    op = top.DequantizeLinear(x_scale=(0.5, 2.0), x_zero_point=(0, 1), axis=0)

    @staticmethod
    def reference(_x: Array) -> Array:
        return np.array([[0.5, 1], [4, 6]], np.float32)

    samples = ([f32([[1, 2], [3, 4]])],)
    flops = 2
