"""Exponential linear unit."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import F64

from tpuc_ops import functions
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Activation


@dataclass(frozen=True)
class Elu(Activation):
    """``x`` above 0, ``alpha * (exp(x) - 1)`` below."""

    name = "top.Elu"
    active = "ELU"
    foreign = ("tflite.ELU",)
    alpha: F64 = 1.0
    flops_per_element = 5

    def function(self, x: Array) -> Array:
        return functions.elu(x, self.alpha)

    def coefficients(self) -> tuple[float, ...]:
        return (self.alpha,)
