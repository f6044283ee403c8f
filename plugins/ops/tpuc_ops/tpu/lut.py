"""A table of 256 entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Elementwise, Node, Op, Raw, Types

from tpuc_ops.arrays import Array
from tpuc_ops.integers import is_integer
from tpuc_ops.shapes import show


@dataclass(frozen=True)
class Lut(Op, Elementwise):
    """``table[q]`` where the index is the stored byte without sign: -1 takes entry 255.

    What integer entries mean is said by the declared result type.
    """

    name = "tpu.Lut"
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types | None:
        x, table = operands[:2]
        if x.storage.bits != 8 or table.size != 256:
            raise ValueError(f"bytes and 256 entries are needed, these are {x.storage} and {show(table.dims)}")
        if is_integer(table):
            return None
        return (x.shape_only().with_element(table.shape_only().element),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, table = operands[:2]
        return [np.take(table.reshape(-1), np.ascontiguousarray(x).view(np.uint8))]

    def flops(self, node: Node) -> int:
        return node.result_type.size
