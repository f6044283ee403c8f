"""top.MaxPool."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform


class TestMaxPool(OpConformance):
    op = top.MaxPool(kernel_shape=(5, 5), pads=(2, 2, 2, 2))
    reference = onnx_node("MaxPool", kernel_shape=[5, 5], pads=[2, 2, 2, 2])
    samples = ([uniform(1, 3, 20, 20)],)
    flops = 5 * 5


class TestMaxPoolWithStrides(OpConformance):
    op = top.MaxPool(kernel_shape=(3, 2), strides=(2, 3), pads=(0, 1, 2, 0))
    reference = onnx_node("MaxPool", kernel_shape=[3, 2], strides=[2, 3], pads=[0, 1, 2, 0])
    samples = ([uniform(2, 3, 8, 7)],)
    flops = 3 * 2


class TestMaxPoolOfRowsRoundedUp(OpConformance):
    op = top.MaxPool(kernel_shape=(3,), strides=(2,), pads=(1, 0), ceil_mode=True, do_relu=True)

    @staticmethod
    def reference(x: Array) -> Array:
        return onnx_node("MaxPool", kernel_shape=[3], strides=[2], pads=[1, 0], ceil_mode=1)(x)[0].clip(0)

    samples = [uniform(2, 3, 9)], [uniform(2, 3, 8)]
    flops = 3 + 1


class TestMaxPoolOfVolumes(OpConformance):
    op = top.MaxPool(kernel_shape=(2, 3, 2), strides=(1, 2, 3), pads=(1, 1, 0, 0, 2, 1))
    reference = onnx_node("MaxPool", kernel_shape=[2, 3, 2], strides=[1, 2, 3], pads=[1, 1, 0, 0, 2, 1])
    samples = ([uniform(2, 3, 5, 6, 7)],)
    flops = 2 * 3 * 2


class TestMaxPoolOfVolumesRoundedUp(OpConformance):
    op = top.MaxPool(kernel_shape=(3, 2, 2), strides=(2, 2, 3), pads=(1, 0, 1, 0, 1, 0), ceil_mode=True, do_relu=True)

    @staticmethod
    def reference(x: Array) -> Array:
        window = {"kernel_shape": [3, 2, 2], "strides": [2, 2, 3], "pads": [1, 0, 1, 0, 1, 0]}
        return onnx_node("MaxPool", **window, ceil_mode=1)(x)[0].clip(0)

    samples = [uniform(2, 3, 6, 5, 7)], [uniform(1, 2, 5, 6, 8)]
    flops = 3 * 2 * 2 + 1
