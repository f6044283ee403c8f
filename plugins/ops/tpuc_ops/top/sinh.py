"""Hyperbolic sine."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc_ops import elementary
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Sinh(Function):
    """``sinh(x)``."""

    name = "top.Sinh"
    active = "SINH"
    foreign = ("onnx.Sinh", "tpulang.sinh")
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return elementary.sinh(x)
