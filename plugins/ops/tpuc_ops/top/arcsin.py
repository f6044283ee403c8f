"""Inverse sine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Arcsin(Function):
    """``arcsin(x)``."""

    name = "top.Arcsin"
    active = "ARCSIN"
    foreign = ("onnx.Asin",)
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return np.arcsin(x)
