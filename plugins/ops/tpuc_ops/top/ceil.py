"""Rounding up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import UnaryOp


@dataclass(frozen=True)
class Ceil(UnaryOp):
    """The smallest whole number that is not below ``x``."""

    name = "top.Ceil"

    def function(self, x: Array) -> Array:
        return np.ceil(x)
