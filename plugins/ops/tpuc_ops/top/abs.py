"""Absolute value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Abs(Function):
    """``|x|``."""

    name = "top.Abs"
    active = "ABSVAL"
    foreign = ("caffe.AbsVal", "onnx.Abs", "tflite.ABS", "tpulang.abs")

    def function(self, x: Array) -> Array:
        return np.abs(x)
