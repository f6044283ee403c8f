"""Absolute value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import UnaryOp


@dataclass(frozen=True)
class Abs(UnaryOp):
    """``|x|``."""

    name = "top.Abs"

    def function(self, x: Array) -> Array:
        return np.abs(x)
