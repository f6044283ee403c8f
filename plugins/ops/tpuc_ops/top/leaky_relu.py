"""Leaky rectified linear unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Node

from tpuc_ops import quantized
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import UnaryOp
from tpuc_ops.traits import Homogeneous, TakesResultRange


@dataclass(frozen=True)
class LeakyRelu(UnaryOp, TakesResultRange, Homogeneous):
    """``x`` above 0, ``alpha * x`` below."""

    name = "top.LeakyRelu"
    alpha: F64 = 0.01
    below_zero = "sloped"

    def quantized(self, node: Node, operands: Sequence[Array]) -> Array:
        return quantized.leaky_relu(node, operands, self.alpha)

    def function(self, x: Array) -> Array:
        return np.where(x > 0, x, np.float32(self.alpha) * x)

    def beyond(self, low: float, high: float, constants: Sequence[Array | None]) -> Sequence[float]:
        return (self.alpha * low,)
