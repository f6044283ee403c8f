"""Quotient of a constant and a tensor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Node

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import ReluFields, UnaryOp


@dataclass(frozen=True)
class Reciprocal(ReluFields, UnaryOp):
    """``const_val / x``, then relu; a zero divisor gives infinity."""

    name = "top.Reciprocal"
    const_val: F64 = 1.0

    def function(self, x: Array) -> Array:
        return self.activate(np.float32(self.const_val) / x)

    def flops(self, node: Node) -> int:
        return node.result_type.size * (1 + self.do_relu)
