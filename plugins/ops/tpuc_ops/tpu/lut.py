"""Lookup table of 256 entries, or one table per channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Elementwise, Node, Op, Raw, TensorType, Types

from tpuc_ops.arrays import Array
from tpuc_ops.integers import is_integer
from tpuc_ops.shapes import show


@dataclass(frozen=True)
class Lut(Op, Elementwise):
    """``table[q]``, indexed by the stored byte as an unsigned number: -1 selects entry 255.

    A table `[1, c, 1, 256]` has a row for each channel (the second axis of the operand). The declared result type gives
    integer entries their meaning.
    """

    name = "tpu.Lut"
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types | None:
        x, table = operands[:2]
        if x.storage.bits != 8 or not (table.size == 256 or _has_rows(x, table)):
            raise ValueError(f"bytes and 256 entries are needed, these are {x.storage} and {show(table.dims)}")
        if is_integer(table):
            return None
        return (x.shape_only().with_element(table.shape_only().element),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, table = operands[:2]
        index = np.asarray(x, order="C").view(np.uint8)
        if table.size == 256:
            return [np.take(table.reshape(-1), index)]
        first = np.arange(index.shape[1], dtype=np.intp).reshape(-1, *(1,) * (index.ndim - 2)) * 256
        return [np.take(table.reshape(-1), index + first)]

    def flops(self, node: Node) -> int:
        return node.result_type.size


def _has_rows(x: TensorType, table: TensorType) -> bool:
    """True if every channel has its own table."""
    return x.rank > 1 and table.size == 256 * x.dims[1]
