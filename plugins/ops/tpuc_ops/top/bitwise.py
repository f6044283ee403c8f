"""Bitwise logic on integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Elementwise, Node, Op, Str, Types

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import broadcast_type

MODES: Mapping[str, Callable[[Array, Array], Array]] = {
    "And": np.bitwise_and,
    "Or": np.bitwise_or,
    "Xor": np.bitwise_xor,
    "ShiftLeft": np.left_shift,
    "ShiftRight": np.right_shift,
}


@dataclass(frozen=True)
class Bitwise(Op, Elementwise):
    """Bitwise And, Or, or Xor of two integers, or the first shifted by the second (ShiftLeft, ShiftRight).

    The operands broadcast. If `bits` is not 0, only that many low bits of the result are kept.
    """

    name = "top.Bitwise"
    mode: Str
    bits: I64 = 0

    def infer(self, operands: Types) -> Types:
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, this one is {self.mode}")
        return (broadcast_type(operands[:2]),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        left, right = (operand.astype(np.int64) for operand in operands[:2])
        result = MODES[self.mode](left, right)
        return [(result & ((1 << self.bits) - 1) if 0 < self.bits < 63 else result).astype(np.float32)]

    def flops(self, node: Node) -> int:
        return node.result_type.size
