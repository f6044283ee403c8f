"""top.Add."""

from __future__ import annotations

import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform


class TestAdd(OpConformance):
    op = top.Add()
    reference = onnx_node("Add")
    samples = [uniform(2, 3, 4), uniform(2, 3, 4, seed=1)], [uniform(2, 3, 4), uniform(3, 1)]
    flops = 1


class TestAddOfThreeWithFactors(OpConformance):
    op = top.Add(coeff=(1.0, -1.0, 0.5), do_relu=True, relu_limit=0.75)

    @staticmethod
    def reference(x: Array, y: Array, z: Array) -> Array:
        return (x - y + z / 2).clip(0, 0.75)

    samples = ([uniform(2, 3), uniform(2, 3, seed=1), uniform(1, 3)],)
    flops = 2 + 1


def test_operands_that_do_not_broadcast_are_refused() -> None:
    with pytest.raises(ValueError, match="shapes 2x3 and 4 do not broadcast"):
        top.Add().infer((TensorType((2, 3), F32), TensorType((4,), F32)))
