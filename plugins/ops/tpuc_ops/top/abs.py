"""Absolute value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function
from tpuc_ops.traits import KeepsSign, TakesResultRange


@dataclass(frozen=True)
class Abs(Function, TakesResultRange, KeepsSign):
    """``|x|``."""

    name = "top.Abs"
    active = "ABSVAL"
    below_zero = "mirrored"
    foreign = ("caffe.AbsVal", "onnx.Abs", "tflite.ABS", "tpulang.abs")

    def function(self, x: Array) -> Array:
        return np.abs(x)
