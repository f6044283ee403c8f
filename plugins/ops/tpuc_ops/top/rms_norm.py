"""Root mean square normalization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import listed


@dataclass(frozen=True)
class RMSNorm(Op):
    """``x / sqrt(mean(x * x) + eps) * gamma`` over the last dimension; operands: x and gamma, which may be absent."""

    name = "top.RMSNorm"
    slots = listed(2, kept=2)
    eps: F64 = 1e-5

    def infer(self, operands: Types) -> Types:
        x = operands[0]
        if x.rank < 1:
            raise ValueError("at least one dimension is needed")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = as_float(operands[0])
        result = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(self.eps))
        if len(operands) > 1 and operands[1].size:
            result = result * as_float(operands[1])
        return [result]

    def flops(self, node: Node) -> int:
        return 5 * node.result_type.size
