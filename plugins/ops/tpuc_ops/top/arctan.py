"""Inverse tangent."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc_ops import elementary
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Arctan(Function):
    """``arctan(x)``."""

    name = "top.Arctan"
    active = "ARCTAN"
    foreign = ("onnx.Atan",)
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return elementary.arctan(x)
