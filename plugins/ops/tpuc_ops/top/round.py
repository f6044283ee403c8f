"""Rounding to the nearest integer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Round(Function):
    """The nearest integer, ties to even."""

    name = "top.Round"
    active = "ROUND"
    foreign = ("onnx.Round", "tflite.ROUND", "tpulang.round")

    def function(self, x: Array) -> Array:
        return np.rint(x)
