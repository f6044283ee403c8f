"""top.AvgPool."""

from __future__ import annotations

import dataclasses

from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform


class TestAvgPool(OpConformance):
    op = top.AvgPool(kernel_shape=(5, 5), pads=(2, 2, 2, 2))
    reference = onnx_node("AveragePool", kernel_shape=[5, 5], pads=[2, 2, 2, 2])
    samples = ([uniform(1, 3, 20, 20)],)
    flops = 5 * 5


class TestAvgPoolWithStrides(OpConformance):
    op = top.AvgPool(kernel_shape=(3, 2), strides=(2, 3), pads=(0, 1, 2, 0))
    reference = onnx_node("AveragePool", kernel_shape=[3, 2], strides=[2, 3], pads=[0, 1, 2, 0])
    samples = ([uniform(2, 3, 8, 7)],)
    flops = 3 * 2


class TestAvgPoolOfRowsRoundedUp(OpConformance):
    op = top.AvgPool(kernel_shape=(3,), strides=(2,), pads=(1, 0), ceil_mode=True, do_relu=True)

    @staticmethod
    def reference(x: Array) -> Array:
        return onnx_node("AveragePool", kernel_shape=[3], strides=[2], pads=[1, 0], ceil_mode=1)(x)[0].clip(0)

    samples = [uniform(2, 3, 9)], [uniform(2, 3, 8)]
    flops = 3 + 1


class TestAvgPoolCountingPadding(OpConformance):
    op = top.AvgPool(kernel_shape=(5, 5), pads=(2, 2, 2, 2), count_include_pad=True)
    reference = onnx_node("AveragePool", kernel_shape=[5, 5], pads=[2, 2, 2, 2], count_include_pad=1)
    samples = ([uniform(1, 3, 20, 20)],)
    flops = 5 * 5


class TestAvgPoolOfEverything(OpConformance):
    op = top.AvgPool(kernel_shape=(9, 7), keepdims=False)

    @staticmethod
    def reference(x: Array) -> Array:
        return x.mean((2, 3))

    samples = ([uniform(2, 3, 9, 7)],)
    flops = 9 * 7


WINDOW = {"kernel_shape": [2, 3, 2], "strides": [1, 2, 3], "pads": [1, 1, 0, 0, 2, 1]}
VOLUMES = top.AvgPool(kernel_shape=(2, 3, 2), strides=(1, 2, 3), pads=(1, 1, 0, 0, 2, 1))


class TestAvgPoolOfVolumes(OpConformance):
    op = VOLUMES
    reference = onnx_node("AveragePool", **WINDOW)
    samples = ([uniform(2, 3, 5, 6, 7)],)
    flops = 2 * 3 * 2


class TestAvgPoolOfVolumesCountingPadding(OpConformance):
    op = dataclasses.replace(VOLUMES, count_include_pad=True)
    reference = onnx_node("AveragePool", **WINDOW, count_include_pad=1)
    samples = ([uniform(2, 3, 5, 6, 7)],)
    flops = 2 * 3 * 2


class TestAvgPoolOfVolumesRoundedUp(OpConformance):
    op = dataclasses.replace(VOLUMES, ceil_mode=True)
    reference = onnx_node("AveragePool", **WINDOW, ceil_mode=1)
    samples = [uniform(2, 3, 5, 6, 7)], [uniform(1, 2, 4, 7, 8)]
    flops = 2 * 3 * 2


class TestAvgPoolOfWholeVolumes(OpConformance):
    op = top.AvgPool(kernel_shape=(3, 4, 5), strides=(1, 1, 1), pads=(0,) * 6, keepdims=False)

    @staticmethod
    def reference(x: Array) -> Array:
        return x.mean((2, 3, 4))

    samples = ([uniform(2, 3, 3, 4, 5)],)
    flops = 3 * 4 * 5
