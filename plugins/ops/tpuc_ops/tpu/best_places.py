"""Places of the best elements of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Bool, Node, Op, Raw, ScalarType, TensorType, Types

from tpuc_ops.arrays import Array


@dataclass(frozen=True)
class BestPlaces(Op):
    """For x: [rows, count], number the `kept` best elements of each row from 0, in the order of the row, as int32.

    All other elements get the number `kept`. Larger elements are better with `largest`, else smaller ones; of equal
    ones the earlier.
    """

    name = "tpu.BestPlaces"
    kept: I64
    largest: Bool = True
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if x.rank != 2 or not 0 < self.kept <= x.dims[1]:
            raise ValueError(f"rows of at least kept={self.kept} elements are needed")
        return (TensorType(x.dims, ScalarType("i32")),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = operands[0].astype(np.float64)
        best = np.argsort(-x if self.largest else x, axis=1, kind="stable")[:, : self.kept]
        is_best = np.zeros(x.shape, np.int32)
        np.put_along_axis(is_best, best, 1, axis=1)
        return [np.where(is_best, np.cumsum(is_best, axis=1, dtype=np.int32) - 1, np.int32(self.kept))]

    def flops(self, node: Node) -> int:
        return 32 * node.result_type.size
