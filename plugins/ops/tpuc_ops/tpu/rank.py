"""Sort position of each element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Bool, Node, Op, Raw, ScalarType, TensorType, Types

from tpuc_ops.arrays import Array


@dataclass(frozen=True)
class Rank(Op):
    """For x: [rows, count], return how many elements of its row precede each element in sorted order, as int32.

    Larger elements come first with `largest`, else smaller ones; of equal ones the earlier. The operand is given twice:
    a chip reads it once along its lanes and once within each lane.
    """

    name = "tpu.Rank"
    largest: Bool = True
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        x, again = operands
        if x.rank != 2 or x.dims != again.dims:
            raise ValueError("the same tensor of two dimensions is needed twice")
        return (TensorType(x.dims, ScalarType("i32")),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = operands[0].astype(np.float64)
        order = np.argsort(-x if self.largest else x, axis=1, kind="stable")
        ranks = np.empty(order.shape, np.int32)
        np.put_along_axis(ranks, order, np.arange(order.shape[1], dtype=np.int32)[None, :], axis=1)
        return [ranks]

    def flops(self, node: Node) -> int:
        rows, count = node.result_type.dims
        return rows * count * count
