"""Inverse hyperbolic cosine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Arccosh(Function):
    """``arccosh(x)``."""

    name = "top.Arccosh"
    active = "ARCCOSH"
    foreign = ("onnx.Acosh",)
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return np.arccosh(x)
