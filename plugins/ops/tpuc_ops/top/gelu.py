"""Gaussian error linear unit."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Str

from tpuc_ops import functions
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Activation
from tpuc_ops.traits import FallsThenRises


@dataclass(frozen=True)
class GELU(Activation, FallsThenRises):
    """``x`` times the distribution function of a standard normal; approximated by a tanh if `approx_mode` is tanh (else
    normal).
    """

    name = "top.GELU"
    active = "GELU"
    foreign = ("tpulang.gelu",)
    approx_mode: Str = "normal"
    flops_per_element = 8

    def function(self, x: Array) -> Array:
        return functions.tanh_gelu(x) if self.approx_mode == "tanh" else functions.gelu(x)

    def active_mode(self) -> str:
        return "TGELU" if self.approx_mode == "tanh" else self.active
