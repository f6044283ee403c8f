"""Load from DDR into local memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import I64, Bool, Node, Op, Raw

from tpuc_ops.arrays import Array


@dataclass(frozen=True)
class Load(Op):
    """The operand, copied into local memory."""

    name = "tpu.Load"
    do_bcast: Bool = False
    is_idx_weight: Bool = False
    lmem_type: I64 = 0
    support_compress: Bool = False
    use_3ic_optimize: I64 = 0
    ginfo: Raw = None

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [operands[0]]
