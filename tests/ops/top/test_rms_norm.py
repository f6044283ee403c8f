"""top.RMSNorm."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, uniform


class TestRMSNorm(OpConformance):
    op = top.RMSNorm(eps=1e-3)

    @staticmethod
    def reference(x: Array, gamma: Array) -> Array:
        x = x.astype(np.float64)
        result = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-3)
        return (result * gamma if gamma.size else result).astype(np.float32)

    samples = [uniform(2, 6, 4), uniform(4)], [uniform(3, 5), None]
    flops = 5
