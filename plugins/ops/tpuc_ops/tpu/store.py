"""Store from local memory to DDR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import F64, Bool, I64Array, Node, Op, Raw

from tpuc_ops.arrays import Array
from tpuc_ops.attributes import listed
from tpuc_ops.top.pad import pad


@dataclass(frozen=True)
class Store(Op):
    """Copy the operand to DDR; with `paddings` (all before, then all after), surrounded by `pad_const_val`."""

    name = "tpu.Store"
    slots = listed(2, kept=1)
    paddings: I64Array | None = None
    pad_const_val: F64 | None = None
    indexing_map_l2s: Raw = None
    support_compress: Bool = False
    ginfo: Raw = None

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = operands[0]
        return [pad(x, self.paddings, "constant", self.pad_const_val or 0.0) if self.paddings else x]
