"""Square root."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import UnaryOp


@dataclass(frozen=True)
class Sqrt(UnaryOp):
    """``sqrt(x)``, NaN below 0."""

    name = "top.Sqrt"

    def function(self, x: Array) -> Array:
        return np.sqrt(x)
