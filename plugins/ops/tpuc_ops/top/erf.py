"""Error function."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc_ops import functions
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Activation
from tpuc_ops.traits import Bounded


@dataclass(frozen=True)
class Erf(Activation, Bounded):
    """``2 / sqrt(pi)`` times the integral of ``exp(-t * t)`` from 0 to ``x``."""

    name = "top.Erf"
    active = "ERF"
    foreign = ("onnx.Erf", "tpulang.erf")
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return functions.erf(x)

    def bounds(self) -> tuple[float, float]:
        return (-1.0, 1.0)
