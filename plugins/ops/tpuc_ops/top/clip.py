"""Clipping to bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import F64

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import UnaryOp
from tpuc_ops.traits import Bounded, CommutesWithRounding


@dataclass(frozen=True)
class Clip(UnaryOp, CommutesWithRounding, Bounded):
    """``minimum(maximum(x, min), max)``."""

    name = "top.Clip"
    min: F64
    max: F64
    flops_per_element = 2

    def function(self, x: Array) -> Array:
        return np.clip(x, np.float32(self.min), np.float32(self.max))

    def bounds(self) -> tuple[float, float]:
        return (self.min, self.max)
