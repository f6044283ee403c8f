"""top.MaxPoolWithMask."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform


class TestMaxPoolWithMask(OpConformance):
    op = top.MaxPoolWithMask(kernel_shape=(3, 2), strides=(2, 1), pads=(1, 0, 1, 1))
    reference = onnx_node("MaxPool", outputs=2, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    samples = ([uniform(1, 1, 7, 6)],)
    flops = 3 * 2


class TestByColumn(OpConformance):
    op = top.MaxPoolWithMask(kernel_shape=(2, 2), strides=(2, 2), by_column=True)

    @staticmethod
    def reference(_x: Array) -> list[Array]:
        return [np.array([[[[5, 7]]]], np.float32), np.array([[[[3, 7]]]], np.float32)]

    samples = ([np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4)],)
    flops = 2 * 2
