"""Inverse square root."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Rsqrt(Function):
    """``1 / sqrt(x)``."""

    name = "top.Rsqrt"
    active = "RSQRT"
    foreign = ("tflite.RSQRT", "tpulang.rsqrt")
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return 1 / np.sqrt(x)
