"""Element-wise selection between two values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Bool, Elementwise, Node, Op, Types

from tpuc_ops import quantized
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.elementwise import broadcast_type
from tpuc_ops.shapes import is_absent


@dataclass(frozen=True)
class Where(Op, Elementwise):
    """`tbrn` where `cond` is not 0, else `fbrn`; the operands cond, tbrn, fbrn broadcast.

    With `x_is_const` (`tbrn`) or `y_is_const` (`fbrn`), a number replaces that branch, whose operand is absent.
    """

    name = "top.Where"
    x_is_const: Bool = False
    y_is_const: Bool = False
    x_const_val: F64 = 0.0
    y_const_val: F64 = 0.0

    def infer(self, operands: Types) -> Types:
        condition, *branches = operands
        present = [branch for branch in branches[:2] if not is_absent(branch)]
        if len(present) != 2 - self.x_is_const - self.y_is_const:
            raise ValueError("every branch must be an operand or a number")
        return (broadcast_type((condition, *present)) if present else condition.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node) and not (self.x_is_const or self.y_is_const):
            return [quantized.where(node, operands)]
        x = np.float32(self.x_const_val) if self.x_is_const else as_float(operands[1])
        y = np.float32(self.y_const_val) if self.y_is_const else as_float(operands[2])
        return [np.where(operands[0] != 0, x, y).astype(np.float32, copy=False)]

    def flops(self, node: Node) -> int:
        return node.result_type.size
