"""Cosine."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc_ops import elementary
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Cos(Function):
    """``cos(x)``, x in radians."""

    name = "top.Cos"
    active = "COS"
    foreign = ("caffe.Cos", "onnx.Cos", "tflite.COS", "tpulang.cos")
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return elementary.cos(x)
