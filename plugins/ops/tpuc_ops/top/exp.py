"""Exponential."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc_ops import elementary
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Exp(Function):
    """``exp(x)``."""

    name = "top.Exp"
    active = "EXP"
    foreign = ("onnx.Exp", "tflite.EXP", "tpulang.exp")
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return elementary.exp(x)
