"""Element-wise maximum of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Commutative, Elementwise, Node, Op, Types

from tpuc_ops import quantised
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.elementwise import broadcast_type


@dataclass(frozen=True)
class Max(Op, Elementwise, Commutative):
    """The largest of all operands at each place, with broadcasting; NaN where one is."""

    name = "top.Max"

    def infer(self, operands: Types) -> Types:
        return (broadcast_type(operands),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantised.is_quantised(node):
            return [quantised.extreme(node, operands, np.maximum)]
        first, *others = (as_float(x) for x in operands)
        for x in others:
            first = np.maximum(first, x)
        return [first]

    def flops(self, node: Node) -> int:
        return node.result_type.size * (len(node.operand_types) - 1)
