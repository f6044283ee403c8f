"""Mish."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc_ops import elementary, functions
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Activation
from tpuc_ops.traits import FallsThenRises


@dataclass(frozen=True)
class Mish(Activation, FallsThenRises):
    """``x * tanh(log(1 + exp(x)))``."""

    name = "top.Mish"
    active = "MISH"
    foreign = ("caffe.Mish", "onnx.Mish", "tpulang.mish")
    flops_per_element = 6

    def function(self, x: Array) -> Array:
        return x * elementary.tanh(functions.softplus(x))
