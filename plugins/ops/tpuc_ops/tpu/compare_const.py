"""Comparison with a constant as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import F64, Bool, Elementwise, Node, Op, Raw, Str, Types

from tpuc_ops.arrays import Array, as_float, held, stored
from tpuc_ops.top.compare import MODES, check_mode


@dataclass(frozen=True)
class CompareConst(Op, Elementwise):
    """As `top.CompareConst`, with the constant in the operand's float type; the result is 1 or 0 in that type."""

    name = "tpu.CompareConst"
    mode: Str
    const_val: F64
    inversed: Bool = False
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        check_mode(self.mode)
        return (operands[0].at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = as_float(operands[0])
        number = held(self.const_val, node.operand_types[0])
        compare = MODES[self.mode]
        return [stored(compare(number, x) if self.inversed else compare(x, number), node.result_type)]

    def flops(self, node: Node) -> int:
        return node.result_type.size
