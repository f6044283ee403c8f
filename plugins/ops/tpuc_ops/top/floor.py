"""Rounding down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Floor(Function):
    """The largest integer that is not above ``x``."""

    name = "top.Floor"
    active = "FLOOR"
    foreign = ("onnx.Floor", "tflite.FLOOR", "tpulang.floor")

    def function(self, x: Array) -> Array:
        return np.floor(x)
