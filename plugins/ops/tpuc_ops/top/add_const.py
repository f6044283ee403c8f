"""Sum with a constant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Node

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import ReluFields, UnaryOp
from tpuc_ops.traits import KeepsSign


@dataclass(frozen=True)
class AddConst(ReluFields, UnaryOp, KeepsSign):
    """``x + const_val``, then relu."""

    name = "top.AddConst"
    const_val: F64

    def function(self, x: Array) -> Array:
        return self.activate(x + np.float32(self.const_val))

    def flops(self, node: Node) -> int:
        return node.result_type.size * (1 + self.do_relu)
