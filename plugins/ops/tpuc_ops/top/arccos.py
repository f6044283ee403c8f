"""Inverse cosine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Arccos(Function):
    """``arccos(x)``."""

    name = "top.Arccos"
    active = "ARCCOS"
    foreign = ("onnx.Acos", "tpulang.arccos")
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return np.arccos(x)
