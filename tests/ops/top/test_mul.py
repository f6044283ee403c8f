"""top.Mul."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform


class TestMul(OpConformance):
    op = top.Mul()
    reference = onnx_node("Mul")
    samples = [uniform(2, 3, 4), uniform(2, 3, 4, seed=1)], [uniform(2, 3, 4), uniform(3, 1)]
    flops = 1


class TestMulOfThree(OpConformance):
    op = top.Mul(do_relu=True)

    @staticmethod
    def reference(x: Array, y: Array, z: Array) -> Array:
        return (x * y * z).clip(0)

    samples = ([uniform(2, 3), uniform(2, 3, seed=1), uniform(3)],)
    flops = 2 + 1
