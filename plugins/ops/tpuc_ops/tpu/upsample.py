"""Repetition of every stored element as a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import I64, Node, Op, Raw, Types

from tpuc_ops.arrays import Array
from tpuc_ops.attributes import listed
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.integers import clamped, is_integer
from tpuc_ops.top.upsample import upsampled
from tpuc_ops.traits import RowByRow


@dataclass(frozen=True)
class Upsample(ReluFields, Op, RowByRow):
    """As `top.Upsample`, on stored elements; a relu clamps integers at the zero point."""

    name = "tpu.Upsample"
    slots = listed(2, kept=1)
    scale_h: I64
    scale_w: I64
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        x = operands[0]
        return (x.with_shape(upsampled(x.dims, self.scale_h, self.scale_w)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        result = operands[0].repeat(self.scale_h, 2).repeat(self.scale_w, 3)
        if is_integer(node.result_type):
            return [clamped(result, node.result_type, self.do_relu, self.relu_limit)]
        return [self.activate(result)]

    def flops(self, node: Node) -> int:
        return node.result_type.size * self.do_relu
