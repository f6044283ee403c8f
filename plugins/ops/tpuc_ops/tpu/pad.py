"""Padding of stored elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import F64, I64Array, Node, Op, Raw, Types

from tpuc_ops.arrays import Array
from tpuc_ops.attributes import PadMode, listed
from tpuc_ops.shapes import padded
from tpuc_ops.top.pad import pad


@dataclass(frozen=True)
class Pad(Op):
    """As `top.Pad`, on stored elements: `val` is a stored value, for integers ``round(value / scale) + zero point``."""

    name = "tpu.Pad"
    slots = listed(4, kept=1)
    paddings: I64Array
    mode: PadMode = "constant"
    val: F64 = 0.0
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        x = operands[0]
        if self.mode not in ("constant", "reflect", "edge"):
            raise ValueError(f"mode must be constant, reflect or edge, this one is {self.mode}")
        return (x.with_shape(padded(x.dims, self.paddings)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [pad(operands[0], self.paddings, self.mode, self.val)]
