"""Hard sigmoid."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import F64

from tpuc_ops import functions
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Activation
from tpuc_ops.traits import Bounded


@dataclass(frozen=True)
class HardSigmoid(Activation, Bounded):
    """``alpha * x + beta``, clipped to 0 and 1."""

    name = "top.HardSigmoid"
    active = "HSIGMOID"
    foreign = ("caffe.HardSigmoid",)
    alpha: F64 = 0.2
    beta: F64 = 0.5
    flops_per_element = 4

    def function(self, x: Array) -> Array:
        return functions.hard_sigmoid(x, self.alpha, self.beta)

    def coefficients(self) -> tuple[float, ...]:
        return (self.alpha, self.beta)

    def bounds(self) -> tuple[float, float]:
        return (0.0, 1.0)
