"""Natural logarithm."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc_ops import elementary
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Log(Function):
    """``log(x)``: minus infinity at 0, NaN below."""

    name = "top.Log"
    active = "LN"
    foreign = ("onnx.Log", "tflite.LOG", "tpulang.ln", "tpulang.log")
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return elementary.log(x)
