"""Element-wise selection between two stored values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Bool, Elementwise, Node, Op, Raw, Types, numpy_dtype

from tpuc_ops.arrays import Array
from tpuc_ops.attributes import listed
from tpuc_ops.elementwise import broadcast_type
from tpuc_ops.shapes import is_absent


@dataclass(frozen=True)
class Where(Op, Elementwise):
    """`tbrn` where `cond` is not 0, else `fbrn`; branches and result are stored alike, and integers are copied.

    With `x_is_const` (`tbrn`) or `y_is_const` (`fbrn`), a stored number replaces that branch, whose operand is absent.
    """

    name = "tpu.Where"
    slots = listed(4, kept=3)
    x_is_const: Bool = False
    y_is_const: Bool = False
    x_const_val: F64 = 0.0
    y_const_val: F64 = 0.0
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        condition, *branches = operands
        present = [branch for branch in branches if not is_absent(branch)]
        if len(present) != 2 - self.x_is_const - self.y_is_const or not present:
            raise ValueError("every branch must be an operand or a number, and one of them an operand")
        return (present[0].with_shape(broadcast_type((condition, *present)).dims).at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        dtype = numpy_dtype(node.result_type.storage)
        with np.errstate(over="ignore"):
            x = np.asarray(self.x_const_val, np.float32).astype(dtype) if self.x_is_const else operands[1]
            y = np.asarray(self.y_const_val, np.float32).astype(dtype) if self.y_is_const else operands[2]
        return [np.where(operands[0] != 0, x, y).astype(dtype, copy=False)]

    def flops(self, node: Node) -> int:
        return node.result_type.size
