"""Permutation of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64Array, Node, Op, Types

from tpuc_ops.arrays import Array
from tpuc_ops.shapes import permuted
from tpuc_ops.traits import Rearranges, Reorders, TakesResultRange


@dataclass(frozen=True)
class Permute(Op, Rearranges, TakesResultRange, Reorders):
    """Dimension `i` of the result is dimension `order[i]` of the operand."""

    name = "top.Permute"
    order: I64Array

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        return (x.shape_only().with_shape(permuted(x.dims, self.order)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [np.transpose(operands[0], self.order)]
