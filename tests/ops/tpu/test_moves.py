"""TPU ops that move stored elements: tpu.Pad, tpu.Slice, tpu.Upsample, tpu.Load, tpu.Store."""

from __future__ import annotations

import numpy as np
from tpuc.api import Node, TensorType
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, integers, quantized, quantized_element, uniform


class TestPad(OpConformance):
    op = tpu.Pad(paddings=(0, 1, 2, 0), val=-7.0)

    @staticmethod
    def reference(x: Array) -> Array:
        result = np.full((x.shape[0] + 2, x.shape[1] + 1), -7, x.dtype)
        result[: x.shape[0], 1:] = x
        return result

    samples = [quantized(integers(2, 3), 0.5)], [uniform(2, 3)]
    flops = 0


class TestSlice(OpConformance):
    op = tpu.Slice(offset=(0, -1), ends=(2, -9), steps=(1, -2))

    @staticmethod
    def reference(x: Array) -> Array:
        return np.array([[row[4], row[2], row[0]] for row in x[:2]])

    samples = ([quantized(integers(3, 5), 0.5)],)
    flops = 0


class TestUpsample(OpConformance):
    op = tpu.Upsample(scale_h=2, scale_w=3, do_relu=True)

    @staticmethod
    def reference(x: Array) -> Array:
        return np.kron(x, np.ones((2, 3), x.dtype)).clip(0)

    samples = [quantized(integers(1, 2, 2, 2), 0.5)], [uniform(1, 2, 2, 2)]
    flops = 1


class TestLoad(OpConformance):
    op = tpu.Load()
    result = quantized_element("int8", 0.5)

    @staticmethod
    def reference(x: Array) -> Array:
        return x

    samples = ([quantized(integers(2, 3), 0.5)],)
    flops = 0


def test_store_pads_what_it_writes() -> None:
    op = tpu.Store(paddings=(0, 0, 1, 0), pad_const_val=0.0)
    type = TensorType((2, 2), quantized_element("int8", 0.5))
    (y,) = op.evaluate(Node(op, (type,), (type.with_shape((3, 2)),)), [np.ones((2, 2), np.int8), np.zeros(0)])
    assert y.tolist() == [[1, 1], [1, 1], [0, 0]]
