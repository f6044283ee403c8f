"""top.Rsqrt."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, uniform


class TestRsqrt(OpConformance):
    op = top.Rsqrt()

    @staticmethod
    def reference(x: Array) -> Array:
        return (1 / np.sqrt(x.astype(np.float64))).astype(np.float32)

    samples = ([uniform(2, 3, 5, low=0.1, high=9)],)
    flops = 4
