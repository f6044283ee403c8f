"""Rounding up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Ceil(Function):
    """The smallest integer that is not below ``x``."""

    name = "top.Ceil"
    active = "CEIL"
    foreign = ("onnx.Ceil", "tflite.CEIL", "tpulang.ceil")

    def function(self, x: Array) -> Array:
        return np.ceil(x)
