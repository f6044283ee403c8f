"""Determinants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Node, Op, Types

from tpuc_ops.arrays import Array, as_float


@dataclass(frozen=True)
class Det(Op):
    """The determinant of each matrix in the last two dimensions."""

    name = "top.Det"

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if x.rank < 2 or x.dims[-1] != x.dims[-2]:
            raise ValueError("square matrices are needed")
        return (x.shape_only().with_shape(x.dims[:-2]),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [np.asarray(np.linalg.det(as_float(operands[0])), np.float32)]

    def flops(self, node: Node) -> int:
        size = node.operand_types[0].dims[-1]
        return node.result_type.size * (2 * size**3 // 3)
