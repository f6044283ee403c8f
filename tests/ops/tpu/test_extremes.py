"""tpu.Max and tpu.Min."""

from __future__ import annotations

import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, f32, integers, onnx_node, quantized, quantized_element


class TestMax(OpConformance):
    op = tpu.Max()
    reference = onnx_node("Max")
    samples = ([f32(-1, 0, 7), f32(2, -3, 7)],)
    flops = 1


class TestMin(OpConformance):
    op = tpu.Min()
    reference = onnx_node("Min")
    samples = ([f32(-1, 0, 7), f32(2, -3, 7)],)
    flops = 1


class TestMaxOfIntegers(OpConformance):
    op = tpu.Max()
    result = quantized_element("int8", 0.1, -10)

    @staticmethod
    def reference(x: Array, y: Array) -> Array:
        return (x + y + abs(x.astype(int) - y)) // 2

    samples = ([quantized(integers(3, 50) // 2, 0.1, -10), quantized(integers(3, 1, seed=1) // 2, 0.1, -10)],)
    flops = 1


def test_operands_are_stored_alike() -> None:
    with pytest.raises(ValueError, match="operands of one type are needed, these are i8, f32"):
        tpu.Max().infer((TensorType((2, 3), quantized_element("int8", 0.1)), TensorType((2, 3), F32)))
