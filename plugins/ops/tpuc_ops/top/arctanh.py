"""Inverse hyperbolic tangent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Arctanh(Function):
    """``arctanh(x)``."""

    name = "top.Arctanh"
    active = "ARCTANH"
    foreign = ("onnx.Atanh", "tpulang.arctanh")
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return np.arctanh(x)
