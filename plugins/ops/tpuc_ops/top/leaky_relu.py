"""Leaky rectified linear unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import F64

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import UnaryOp


@dataclass(frozen=True)
class LeakyRelu(UnaryOp):
    """``x`` above 0, ``alpha * x`` below."""

    name = "top.LeakyRelu"
    alpha: F64 = 0.01

    def function(self, x: Array) -> Array:
        return np.where(x > 0, x, np.float32(self.alpha) * x)
