"""Sine."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc_ops import elementary
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Sin(Function):
    """``sin(x)``, x in radians."""

    name = "top.Sin"
    active = "SIN"
    foreign = ("caffe.Sin", "onnx.Sin", "tflite.SIN", "tpulang.sin")
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return elementary.sin(x)
