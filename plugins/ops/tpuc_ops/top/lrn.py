"""Local response normalization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from tpuc.api import F64, I64, Node, Op, Types

from tpuc_ops import elementary
from tpuc_ops.arrays import Array, as_float


@dataclass(frozen=True)
class LRN(Op):
    """``x / (bias + alpha / size * s) ** beta``, where s sums the squares of `size` adjacent channels, ``(size - 1) //
    2`` of them before the channel.
    """

    name = "top.LRN"
    size: I64
    alpha: F64 = 0.0001
    beta: F64 = 0.75
    bias: F64 = 1.0

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if self.size < 1 or x.rank < 2:
            raise ValueError(f"a size of at least 1 and channels are needed, these are {self.size} and {x.rank} dims")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = as_float(operands[0])
        before = (self.size - 1) // 2
        around = [(0, 0)] * x.ndim
        around[1] = (before, self.size - 1 - before)
        squares = sliding_window_view(np.pad(np.square(x), around), self.size, axis=1).sum(-1)
        return [
            x
            / elementary.power(
                np.float32(self.bias) + np.float32(self.alpha / self.size) * squares, np.float32(self.beta)
            )
        ]

    def flops(self, node: Node) -> int:
        return node.result_type.size * (2 * self.size + 6)
