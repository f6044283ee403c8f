"""Quotient of two tensors as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Bool, Elementwise, Node, Op, Raw, Types

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.elementwise import ReluFields, broadcast_type


@dataclass(frozen=True)
class Div(ReluFields, Op, Elementwise):
    """``x / y`` of floats with broadcasting, or ``y / x`` with `is_reverse`, then relu."""

    name = "tpu.Div"
    is_reverse: Bool = False
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        if len(operands) != 2:
            raise ValueError(f"two operands are needed, there are {len(operands)}")
        for operand in operands:
            if not operand.storage.is_float:
                raise ValueError(f"floats are needed, an operand stores {operand.storage}")
        return (broadcast_type(operands),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, y = (as_float(operand) for operand in operands)
        with np.errstate(divide="ignore", invalid="ignore"):
            return [stored(self.activate(y / x if self.is_reverse else x / y), node.result_type)]

    def flops(self, node: Node) -> int:
        return node.result_type.size * (1 + self.do_relu)
