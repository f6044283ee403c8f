"""Repetition of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64Array, Node, Op, Types

from tpuc_ops.arrays import Array
from tpuc_ops.traits import Rearranges, Repeats


@dataclass(frozen=True)
class Tile(Op, Rearranges, Repeats):
    """Repeat the whole tensor `tile[i]` times along dimension `i`."""

    name = "top.Tile"
    tile: I64Array

    def infer(self, operands: Types) -> Types:
        x = operands[0]
        if len(self.tile) != x.rank:
            raise ValueError(f"{x.rank} repetition counts are needed, these are {list(self.tile)}")
        return (x.shape_only().with_shape(tuple(d * t for d, t in zip(x.dims, self.tile, strict=True))),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [np.tile(operands[0], self.tile)]
