"""Selection of rows by index, on stored elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Node, Op, Raw, Types

from tpuc_ops.arrays import Array
from tpuc_ops.integers import is_integer
from tpuc_ops.shapes import show


@dataclass(frozen=True)
class GatherRows(Op):
    """Row `i` of channel `c` of the result is row `indices[c, i]` of `x`, or zeros if it does not exist.

    Operands: x `[channels, rows, width]` and indices `[channels or 1, count]` of int32. Stored elements are copied.
    """

    name = "tpu.GatherRows"
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types | None:
        x, indices = operands
        if x.rank != 3 or indices.rank != 2 or indices.dims[0] not in (1, x.dims[0]):
            raise ValueError(f"indices {show(indices.dims)} do not fit {show(x.dims)}")
        if is_integer(x) and not x.is_quantized:
            return None  # a constant does not say what its integers mean
        return (x.with_shape((x.dims[0], indices.dims[1], x.dims[2])).at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, indices = operands
        indices = np.broadcast_to(indices.astype(np.int64), (x.shape[0], indices.shape[1]))
        inside = (indices >= 0) & (indices < x.shape[1])
        rows = x[np.arange(x.shape[0])[:, None], np.where(inside, indices, 0)]
        rows[~inside] = 0
        return [rows]
