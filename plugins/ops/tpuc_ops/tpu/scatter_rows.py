"""Replacement of rows of a tensor, on stored elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Node, Op, Raw, Types

from tpuc_ops.arrays import Array
from tpuc_ops.integers import is_integer
from tpuc_ops.shapes import is_absent, show


@dataclass(frozen=True)
class ScatterRows(Op):
    """Replace row `indices[c, i]` of channel `c` of `x` by row `i` of `updates`; the last of several updates wins.

    Operands: x `[channels, rows, width]`, indices `[channels or 1, count]` of int32, updates `[channels, count,
    width]`. Without `x` (an absent operand), the result starts undefined and every row must be written. Updates for
    rows that do not exist are skipped. Stored elements are copied.
    """

    name = "tpu.ScatterRows"
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types | None:
        x, indices, updates = operands
        if is_absent(x):
            return None
        if indices.rank != 2 or updates.rank != 3 or indices.dims[1] != updates.dims[1]:
            raise ValueError(f"indices {show(indices.dims)} do not fit updates {show(updates.dims)}")
        if x.rank != 3 or indices.dims[0] not in (1, x.dims[0]) or x.dims[::2] != updates.dims[::2]:
            raise ValueError(f"updates {show(updates.dims)} do not fit {show(x.dims)}")
        if is_integer(x) and not x.is_quantized:
            return None  # a constant does not say what its integers mean
        return (x.at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, indices, updates = operands
        shape = node.result_type.dims
        result = x.copy() if x.size else np.zeros(shape, updates.dtype)
        indices = np.broadcast_to(indices.astype(np.int64), updates.shape[:2])
        channels, rows = np.nonzero((indices >= 0) & (indices < shape[1]))
        result[channels, indices[channels, rows]] = updates[channels, rows]
        return [result]
