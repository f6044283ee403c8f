"""Difference of two tensors as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import Bool, Elementwise, F64Array, I64Array, Node, Op, Raw, Types

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.elementwise import ReluFields, broadcast_type, weighted
from tpuc_ops.integers import clamped, is_integer, rescaled_sum, zero_point


@dataclass(frozen=True)
class Sub(ReluFields, Op, Elementwise):
    """``x - y`` with broadcasting, or ``y - x`` with `is_reverse`, then relu; integers as in `tpu.Add`."""

    name = "tpu.Sub"
    multipliers: I64Array = ()
    rshifts: I64Array = ()
    coeff: F64Array | None = None
    is_reverse: Bool = False
    is_scalar: Bool = False
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        if len(operands) != 2:
            raise ValueError(f"two operands are needed, there are {len(operands)}")
        if any(map(is_integer, operands)) and len(self.multipliers) != 2:
            raise ValueError(f"{len(self.multipliers)} multipliers do not fit two integer operands")
        return (broadcast_type(operands),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        type = node.result_type
        if is_integer(type):
            signs = (-1, 1) if self.is_reverse else (1, -1)
            total = rescaled_sum(operands, node.operand_types, self.multipliers, self.rshifts, signs)
            return [clamped(total + zero_point(type), type, self.do_relu, self.relu_limit)]
        x, y = weighted([as_float(operand) for operand in operands], self.coeff)
        return [stored(self.activate(y - x if self.is_reverse else x - y), type)]

    def flops(self, node: Node) -> int:
        return node.result_type.size * (1 + self.do_relu)
