"""Rounding to the nearest whole number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import UnaryOp


@dataclass(frozen=True)
class Round(UnaryOp):
    """The nearest whole number, ties to the even one."""

    name = "top.Round"

    def function(self, x: Array) -> Array:
        return np.rint(x)
