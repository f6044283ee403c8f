"""Shared code of element-wise maxima and minima."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np
from tpuc.api import Commutative, Elementwise, Node, Op, Types

from tpuc_ops import quantized
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.elementwise import broadcast_type


@dataclass(frozen=True)
class Extreme(Op, Elementwise, Commutative, quantized.KeepsScale):
    """The largest or smallest of all operands at each position, with broadcasting; NaN if one of them is NaN."""

    choose: ClassVar[np.ufunc]

    def infer(self, operands: Types) -> Types:
        return (broadcast_type(operands),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.extreme(node, operands, self.choose)]
        return [reduce(self.choose, map(as_float, operands))]

    def flops(self, node: Node) -> int:
        return node.result_type.size * (len(node.operand_types) - 1)
