"""Remainder of a division."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Bool, Elementwise, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.elementwise import broadcast_type


@dataclass(frozen=True)
class Mod(Op, Elementwise):
    """The remainder of lhs by rhs with the sign of rhs, or with the sign of lhs if `fmod`; the operands broadcast."""

    name = "top.Mod"
    fmod: Bool = False

    def infer(self, operands: Types) -> Types:
        return (broadcast_type(operands[:2]),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        left, right = (as_float(operand) for operand in operands[:2])
        with np.errstate(all="ignore"):
            return [np.fmod(left, right) if self.fmod else np.mod(left, right)]

    def flops(self, node: Node) -> int:
        return 2 * node.result_type.size
