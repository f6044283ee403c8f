"""Bitwise logic on integers as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Elementwise, Node, Op, Raw, Str, Types

from tpuc_ops.arrays import Array, stored
from tpuc_ops.elementwise import broadcast_type
from tpuc_ops.top.bitwise import MODES


@dataclass(frozen=True)
class Bitwise(Op, Elementwise):
    """As `top.Bitwise`, on operands truncated to int32; the result has their float type again."""

    name = "tpu.Bitwise"
    mode: Str
    bits: I64 = 0
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, this one is {self.mode}")
        return (operands[0].with_shape(broadcast_type(operands).dims).at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        left, right = (operand.astype(np.float64).astype(np.int32) for operand in operands)
        result = MODES[self.mode](left, right)
        if 0 < self.bits < 32:
            result = result & np.int32((1 << self.bits) - 1)
        return [stored(result.astype(np.float32), node.result_type)]

    def flops(self, node: Node) -> int:
        return node.result_type.size
