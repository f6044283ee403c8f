"""Sigmoid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Bool, Str

from tpuc_ops import elementary, functions
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Activation
from tpuc_ops.traits import Bounded


@dataclass(frozen=True)
class Sigmoid(Activation, Bounded):
    """``scale / (1 + exp(-x)) + bias``; with `log`, the logarithm of that."""

    name = "top.Sigmoid"
    active = "SIGMOID"
    foreign = ("caffe.Sigmoid", "onnx.Sigmoid", "tflite.LOGISTIC", "tpulang.sigmoid")
    scale: F64 = 1.0
    bias: F64 = 0.0
    log: Bool = False
    round_mode: Str = "HalfAwayFromZero"
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        if self.log and (self.scale, self.bias) == (1.0, 0.0):
            return functions.log_sigmoid(x)
        result = functions.sigmoid(x) * np.float32(self.scale) + np.float32(self.bias)
        return elementary.log(result) if self.log else result

    def active_mode(self) -> str:
        if (self.scale, self.bias) != (1.0, 0.0):
            return ""
        return "LOG_SIGMOID" if self.log else self.active

    def bounds(self) -> tuple[float, float] | None:
        low, high = sorted((self.bias, self.scale + self.bias))
        return None if self.log else (low, high)
