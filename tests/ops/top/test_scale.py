"""top.Scale."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, uniform


class TestScale(OpConformance):
    op = top.Scale()

    @staticmethod
    def reference(x: Array, scale: Array, bias: Array) -> Array:
        return x * scale + bias

    samples = ([uniform(2, 3, 4, 5), uniform(1, 3, 1, 1), uniform(1, 3, 1, 1, seed=1)],)
    flops = 2


class TestScaleWithoutBias(OpConformance):
    op = top.Scale(do_relu=True)

    @staticmethod
    def reference(x: Array, scale: Array, _bias: Array) -> Array:
        return (x * scale[:, None]).clip(0)

    samples = ([uniform(2, 3, 4), uniform(3), None],)
    flops = 2 + 1
