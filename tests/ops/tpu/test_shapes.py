"""TPU ops that pass stored elements through: tpu.Reshape, tpu.Permute, tpu.Concat."""

from __future__ import annotations

import numpy as np
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, integers, onnx_node, quantized, quantized_element, uniform


class TestReshape(OpConformance):
    op = tpu.Reshape(shape=(0, -1))

    @staticmethod
    def reference(x: Array) -> Array:
        return x.reshape(x.shape[0], -1)

    samples = [uniform(2, 3, 4)], [quantized(integers(2, 3, 4), 0.5)]
    flops = 0


class TestPermute(OpConformance):
    op = tpu.Permute(order=(0, 2, 3, 1))
    reference = onnx_node("Transpose", perm=[0, 2, 3, 1], inputs=(0,))
    samples = [uniform(2, 3, 4, 5), None], [quantized(integers(2, 3, 4, 5), 0.5)]
    flops = 0


class TestConcat(OpConformance):
    op = tpu.Concat(axis=1)
    reference = onnx_node("Concat", axis=1)
    samples = [uniform(2, 3, 4), uniform(2, 1, 4)], [quantized(integers(2, 3), 0.5), quantized(integers(2, 1), 0.5)]
    flops = 0


class TestConcatOfScales(OpConformance):
    op = tpu.Concat(axis=0, multipliers=(64, 100), rshifts=(6, 7))
    result = quantized_element("int8", 0.5)

    @staticmethod
    def reference(x: Array, y: Array) -> Array:
        second = [min(max((int(q) * 100 + 64) >> 7, -128), 127) for q in y]
        return np.array([*x.tolist(), *second], np.int8)

    samples = ([quantized(integers(9), 0.5), quantized(integers(9, seed=1), 0.390625)],)
    flops = 0
