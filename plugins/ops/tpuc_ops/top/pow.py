"""Power with a constant exponent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import F64

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import UnaryOp


@dataclass(frozen=True)
class Pow(UnaryOp):
    """``x ** exponent``."""

    name = "top.Pow"
    exponent: F64
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return np.power(x, np.float32(self.exponent))
