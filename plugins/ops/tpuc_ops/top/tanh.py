"""Hyperbolic tangent."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc_ops import elementary
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Activation
from tpuc_ops.traits import Bounded


@dataclass(frozen=True)
class Tanh(Activation, Bounded):
    """``tanh(x)``."""

    name = "top.Tanh"
    active = "TANH"
    foreign = ("caffe.TanH", "onnx.Tanh", "tflite.TANH", "tpulang.tanh")
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return elementary.tanh(x)

    def bounds(self) -> tuple[float, float]:
        return (-1.0, 1.0)
