"""top.Sub."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform


class TestSub(OpConformance):
    op = top.Sub()
    reference = onnx_node("Sub")
    samples = [uniform(2, 3, 4), uniform(2, 3, 4, seed=1)], [uniform(2, 3, 4), uniform(3, 1)]
    flops = 1


class TestSubReversed(OpConformance):
    op = top.Sub(is_reverse=True, do_relu=True)

    @staticmethod
    def reference(x: Array, y: Array) -> Array:
        return (y - x).clip(0)

    samples = ([uniform(2, 3), uniform(3)],)
    flops = 1 + 1
