"""Inverse hyperbolic sine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Arcsinh(Function):
    """``arcsinh(x)``."""

    name = "top.Arcsinh"
    active = "ARCSINH"
    foreign = ("onnx.Asinh",)
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return np.arcsinh(x)
