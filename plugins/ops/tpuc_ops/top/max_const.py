"""Maximum with a constant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import UnaryOp
from tpuc_ops.traits import KeepsRange, KeepsSign


@dataclass(frozen=True)
class MaxConst(UnaryOp, KeepsRange, KeepsSign):
    """``maximum(x, const_val)``."""

    name = "top.MaxConst"
    const_val: F64

    def function(self, x: Array) -> Array:
        return np.maximum(x, np.float32(self.const_val))

    def beyond(self, low: float, high: float, constants: Sequence[Array | None]) -> Sequence[float]:
        return (max(self.const_val, low),)
