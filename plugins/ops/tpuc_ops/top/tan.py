"""Tangent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Tan(Function):
    """``tan(x)``, x in radians."""

    name = "top.Tan"
    active = "TAN"
    foreign = ("onnx.Tan", "tpulang.tan")
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return np.tan(x)
