"""Mish."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops import functions
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Activation


@dataclass(frozen=True)
class Mish(Activation):
    """``x * tanh(log(1 + exp(x)))``."""

    name = "top.Mish"
    active = "MISH"
    foreign = ("caffe.Mish", "onnx.Mish", "tpulang.mish")
    flops_per_element = 6

    def function(self, x: Array) -> Array:
        return x * np.tanh(functions.softplus(x))
