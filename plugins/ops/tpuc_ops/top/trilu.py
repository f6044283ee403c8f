"""Upper or lower triangle of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Node, Op, Types

from tpuc_ops.arrays import Array
from tpuc_ops.attributes import FormerI64


@dataclass(frozen=True)
class Trilu(Op):
    """Set elements below (`upper` 1) or above (`upper` 0) a diagonal to zero; `diagonal` is its offset to the right of
    the main one.
    """

    name = "top.Trilu"
    upper: FormerI64 = 1
    diagonal: FormerI64 = 0

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if x.rank < 2:
            raise ValueError(f"at least two dimensions are needed, there are {x.rank}")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [(np.triu if self.upper else np.tril)(operands[0], self.diagonal)]
