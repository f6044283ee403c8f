"""top.CompareConst."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, f32


class TestCompareConst(OpConformance):
    op = top.CompareConst(mode="Less", const_val=2.0)

    @staticmethod
    def reference(x: Array) -> Array:
        return (x < 2).astype(np.float32)

    samples = ([f32(1, 2, 3)],)
    flops = 1


class TestInversed(OpConformance):
    op = top.CompareConst(mode="Less", const_val=2.0, inversed=True)

    @staticmethod
    def reference(x: Array) -> Array:
        return (x > 2).astype(np.float32)

    samples = ([f32(1, 2, 3)],)
    flops = 1


class TestInfinity(OpConformance):
    op = top.CompareConst(mode="Equal", const_val=float("inf"))

    @staticmethod
    def reference(x: Array) -> Array:
        return np.isposinf(x).astype(np.float32)

    samples = ([f32(1, float("inf"), float("-inf"))],)
    flops = 1
