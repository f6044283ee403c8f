"""top.Arg."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, f32, uniform


class TestArgMax(OpConformance):
    op = top.Arg(axis=1)

    @staticmethod
    def reference(x: Array) -> list[Array]:
        return [x.argmax(1, keepdims=True).astype(np.float32), x.max(1, keepdims=True)]

    samples = ([uniform(2, 5, 3)], [f32([[1, 3, 3]])])
    flops = (2 * 5 * 3, 3)


class TestArgMin(OpConformance):
    op = top.Arg(axis=-1, keepdims=False, mode="ArgMin")

    @staticmethod
    def reference(x: Array) -> list[Array]:
        return [x.argmin(-1).astype(np.float32), x.min(-1)]

    samples = ([uniform(2, 5, 3)],)
    flops = 3


class TestLast(OpConformance):
    op = top.Arg(axis=0, select_last_index=True)

    @staticmethod
    def reference(x: Array) -> list[Array]:
        return [np.array([2, 1], np.float32)[None], x.max(0, keepdims=True)]

    samples = ([f32([[3, 1], [2, 5], [3, 0]])],)
    flops = 3
