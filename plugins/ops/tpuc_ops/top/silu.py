"""Sigmoid linear unit."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc_ops import functions
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Activation
from tpuc_ops.traits import FallsThenRises


@dataclass(frozen=True)
class SiLU(Activation, FallsThenRises):
    """``x / (1 + exp(-x))``."""

    name = "top.SiLU"
    active = "SILU"
    foreign = ("tpulang.silu",)
    flops_per_element = 5

    def function(self, x: Array) -> Array:
        return functions.silu(x)
