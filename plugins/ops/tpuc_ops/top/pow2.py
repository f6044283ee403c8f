"""Power of a constant base."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import F64

from tpuc_ops import elementary
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import UnaryOp


@dataclass(frozen=True)
class Pow2(UnaryOp):
    """``const_val ** x``."""

    name = "top.Pow2"
    const_val: F64
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return elementary.power(np.float32(self.const_val), x)
