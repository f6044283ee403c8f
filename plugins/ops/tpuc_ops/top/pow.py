"""Power with a constant exponent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Node

from tpuc_ops import elementary, quantized
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import UnaryOp


@dataclass(frozen=True)
class Pow(UnaryOp):
    """``x ** exponent``."""

    name = "top.Pow"
    exponent: F64
    flops_per_element = 4

    def quantized(self, node: Node, operands: Sequence[Array]) -> Array:
        if self.exponent == 2.0 and node.operand_types[0].storage.bits > 8:
            return quantized.square(node, operands)
        return super().quantized(node, operands)

    def function(self, x: Array) -> Array:
        return elementary.power(x, np.float32(self.exponent))
