"""Merge adjacent dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import I64, Node, Op, Types

from tpuc_ops.arrays import Array
from tpuc_ops.shapes import positive_axis
from tpuc_ops.traits import Reshapes


@dataclass(frozen=True)
class Flatten(Op, Reshapes):
    """Merge the dimensions `start_dim` to `end_dim`, both included."""

    name = "top.Flatten"
    start_dim: I64 = 0
    end_dim: I64 = -1

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        start, end = positive_axis(self.start_dim, x.rank), positive_axis(self.end_dim, x.rank)
        if start > end:
            raise ValueError(f"start_dim {self.start_dim} is after end_dim {self.end_dim}")
        dims = x.dims
        return (x.shape_only().with_shape((*dims[:start], math.prod(dims[start : end + 1]), *dims[end + 1 :])),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [operands[0].reshape(node.result_type.dims)]
