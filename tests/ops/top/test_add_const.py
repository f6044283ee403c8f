"""top.AddConst."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, uniform


class TestAddConst(OpConformance):
    op = top.AddConst(const_val=-0.3)

    @staticmethod
    def reference(x: Array) -> Array:
        return x + np.float32(-0.3)

    samples = ([uniform(2, 3, 4)],)
    flops = 1


class TestAddConstWithRelu(OpConformance):
    op = top.AddConst(const_val=-0.3, do_relu=True, relu_limit=0.5)

    @staticmethod
    def reference(x: Array) -> Array:
        return (x + np.float32(-0.3)).clip(0, 0.5)

    samples = ([uniform(2, 3, 4)],)
    flops = 1 + 1
