"""tpu.Relu."""

from __future__ import annotations

import numpy as np
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, f32, integers, onnx_node, quantized, quantized_element


class TestRelu(OpConformance):
    op = tpu.Relu(relu_limit=6.0)
    reference = onnx_node("Clip", min=0.0, max=6.0)
    samples = ([f32(-1, 0, 7)],)
    flops = 2


class TestReluOfIntegers(OpConformance):
    op = tpu.Relu(relu_limit=6.0)

    @staticmethod
    def reference(q: Array) -> Array:
        return q.clip(-10, 50)  # 6 / 0.1 - 10

    samples = ([quantized(integers(3, 50), 0.1, -10)],)
    flops = 2


class TestReluIntoUnsigned(OpConformance):
    op = tpu.Relu()
    result = quantized_element("uint8", 0.1)

    @staticmethod
    def reference(q: Array) -> Array:
        return q.clip(0).astype(np.uint8)

    samples = ([quantized(integers(3, 50), 0.1)],)
    flops = 1
