"""Remainder of a division as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Bool, Elementwise, Node, Op, Raw, Types

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.elementwise import broadcast_type


@dataclass(frozen=True)
class Remainder(Op, Elementwise):
    """As `top.Mod`, in float32: exact while the quotient is below 2**22."""

    name = "tpu.Remainder"
    fmod: Bool = False
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        return (operands[0].with_shape(broadcast_type(operands).dims).at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        left, right = (as_float(operand) for operand in operands)
        with np.errstate(all="ignore"):
            return [stored(np.fmod(left, right) if self.fmod else np.mod(left, right), node.result_type)]

    def flops(self, node: Node) -> int:
        return 8 * node.result_type.size
