"""Hyperbolic cosine."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc_ops import elementary
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function


@dataclass(frozen=True)
class Cosh(Function):
    """``cosh(x)``."""

    name = "top.Cosh"
    active = "COSH"
    foreign = ("onnx.Cosh", "tpulang.cosh")
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return elementary.cosh(x)
