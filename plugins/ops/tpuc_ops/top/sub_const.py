"""Difference with a constant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Bool, Node

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import ReluFields, UnaryOp
from tpuc_ops.traits import KeepsSign


@dataclass(frozen=True)
class SubConst(ReluFields, UnaryOp, KeepsSign):
    """``x - const_val``, or ``const_val - x`` with `is_reverse`, then relu."""

    name = "top.SubConst"
    const_val: F64
    is_reverse: Bool = False

    def function(self, x: Array) -> Array:
        constant = np.float32(self.const_val)
        return self.activate(constant - x if self.is_reverse else x - constant)

    def flops(self, node: Node) -> int:
        return node.result_type.size * (1 + self.do_relu)
