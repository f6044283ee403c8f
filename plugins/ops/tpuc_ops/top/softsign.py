"""Soft sign."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Activation
from tpuc_ops.traits import Bounded


@dataclass(frozen=True)
class Softsign(Activation, Bounded):
    """``x / (1 + |x|)``."""

    name = "top.Softsign"
    active = "SOFT_SIGN"
    foreign = ("onnx.Softsign", "tpulang.softsign")
    flops_per_element = 3

    def function(self, x: Array) -> Array:
        return x / (1 + np.abs(x))

    def bounds(self) -> tuple[float, float]:
        return (-1.0, 1.0)
