"""Power of two tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Elementwise, Node, Op, Types

from tpuc_ops import elementary
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.elementwise import broadcast_type


@dataclass(frozen=True)
class Pow3(Op, Elementwise):
    """``lhs ** rhs``; the operands broadcast."""

    name = "top.Pow3"

    def infer(self, operands: Types) -> Types:
        return (broadcast_type(operands[:2]),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        with np.errstate(all="ignore"):
            return [elementary.power(as_float(operands[0]), as_float(operands[1]))]

    def flops(self, node: Node) -> int:
        return 4 * node.result_type.size
