"""top.SiLU."""

from __future__ import annotations

import math

import numpy as np
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, uniform


class TestSiLU(OpConformance):
    op = top.SiLU()

    @staticmethod
    def reference(x: Array) -> Array:
        return np.array([value / (1 + math.exp(-value)) for value in x.reshape(-1).tolist()]).reshape(x.shape)

    samples = ([uniform(2, 3, 4, low=-30, high=30)],)
    flops = 5
