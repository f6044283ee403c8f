"""Infinities as numbers, on chips whose floats have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import BF16, Elementwise, Node, Op, Raw, Types

from tpuc_ops.arrays import Array

HIGHEST = 0x72
"""The largest upper byte without its sign: seven of the eight bits of the exponent."""


@dataclass(frozen=True)
class Finite(Op, Elementwise):
    """bf16 numbers below 2**103 as they are. The upper byte of others, without its sign, becomes `HIGHEST`: also
    infinities and NaN lie between 2**101 and 2**103 then, and keep their sign.
    """

    name = "tpu.Finite"
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if x.storage != BF16:
            raise ValueError(f"its operand must be bf16, not {x.storage}")
        return (x.at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        bits = np.ascontiguousarray(operands[0]).view(np.uint16)
        upper = np.minimum(bits >> 8 & 0x7F, HIGHEST) | bits >> 8 & 0x80
        return [(upper << 8 | bits & 0xFF).astype(np.uint16).view(operands[0].dtype).reshape(operands[0].shape)]

    def flops(self, node: Node) -> int:
        return 2 * node.result_type.size
