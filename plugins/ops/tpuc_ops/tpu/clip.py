"""Values kept within bounds, as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Elementwise, Node, Op, Raw, Types

from tpuc_ops.arrays import Array, as_float, stored


@dataclass(frozen=True)
class Clip(Op, Elementwise):
    """``minimum(maximum(x, min), max)`` of floats; for integers there is `tpu.Lut`."""

    name = "tpu.Clip"
    min: F64
    max: F64
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if not x.storage.is_float:
            raise ValueError(f"floats are needed, this operand stores {x.storage}; use tpu.Lut")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        clipped = np.clip(as_float(operands[0]), np.float32(self.min), np.float32(self.max))
        return [stored(clipped, node.result_type)]

    def flops(self, node: Node) -> int:
        return 2 * node.result_type.size
