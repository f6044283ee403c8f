"""L2 normalization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Bool, Node, Op, Types

from tpuc_ops import quantized
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.shapes import show

EPSILON = 1e-10
"""Constant that the vendor's op adds to the sum of squares; it has no attribute for it."""


@dataclass(frozen=True)
class Normalize(Op):
    """``x / sqrt(sum of squares + 1e-10) * scale``, over the channels of each position of `x: [n, c, ...]`, or over a
    whole sample with `across_spatial`; `scale` has one element with `channel_shared`, else `c`.
    """

    name = "top.Normalize"
    across_spatial: Bool = False
    channel_shared: Bool = True

    def infer(self, operands: Types) -> Types:
        x, scale = operands
        wanted = 1 if self.channel_shared else x.dims[1]
        if scale.size != wanted:
            raise ValueError(f"scale {show(scale.dims)} should have {wanted} elements")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.normalize(self, node, operands)]
        x, scale = (as_float(operand) for operand in operands)
        axes = tuple(range(1, x.ndim)) if self.across_spatial else (1,)
        length = np.sqrt(np.square(x).sum(axes, keepdims=True) + np.float32(EPSILON))
        return [x / length * scale.reshape(-1, *(1,) * (x.ndim - 2))]

    def flops(self, node: Node) -> int:
        return 4 * node.result_type.size
