"""Hyperbolic sine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Sinh(Function):
    """``sinh(x)``."""

    name = "top.Sinh"
    active = "SINH"
    foreign = ("onnx.Sinh", "tpulang.sinh")
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return np.sinh(x)
