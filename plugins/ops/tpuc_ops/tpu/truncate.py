"""Integers of a narrower type as the chip computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import Elementwise, Node, Op, Raw, Str, Types

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.narrow import narrowed


@dataclass(frozen=True)
class Truncate(Op, Elementwise):
    """Truncate floats toward 0 and to the low bits of the integer type `to` (named as in `top.Cast`); the result keeps
    their float type.
    """

    name = "tpu.Truncate"
    to: Str
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        if not self.to.lstrip("U").startswith("INT"):
            raise ValueError(f"to must be an integer type, this one is {self.to}")
        return (operands[0].at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [stored(narrowed(as_float(operands[0]), self.to), node.result_type)]

    def flops(self, node: Node) -> int:
        return node.result_type.size
