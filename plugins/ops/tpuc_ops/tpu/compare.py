"""Comparison and logic of floats, as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import Elementwise, Node, Op, Raw, Str, Types

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.elementwise import broadcast_type
from tpuc_ops.top.compare import MODES, check_mode


@dataclass(frozen=True)
class Compare(Op, Elementwise):
    """As `top.Compare`: 1 or 0 in the operands' float type. Comparisons with NaN are undefined."""

    name = "tpu.Compare"
    mode: Str
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        check_mode(self.mode)
        return (operands[0].with_shape(broadcast_type(operands).dims).at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        left, right = (as_float(operand) for operand in operands)
        return [stored(MODES[self.mode](left, right), node.result_type)]

    def flops(self, node: Node) -> int:
        return node.result_type.size
