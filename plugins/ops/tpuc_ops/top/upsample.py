"""Repetition of every element as a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import I64, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.traits import ExtractsFeatures, Rearranges


@dataclass(frozen=True)
class Upsample(ReluFields, Op, Rearranges, ExtractsFeatures):
    """Repeat each element of `x: [n, c, h, w]` `scale_h` by `scale_w` times, then relu."""

    name = "top.Upsample"
    scale_h: I64
    scale_w: I64

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        return (x.shape_only().with_shape(upsampled(x.dims, self.scale_h, self.scale_w)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = operands[0] if node.result_type.is_quantized and not self.do_relu else as_float(operands[0])
        return [self.activate(x.repeat(self.scale_h, 2).repeat(self.scale_w, 3))]

    def flops(self, node: Node) -> int:
        return node.result_type.size * self.do_relu


def upsampled(dims: tuple[int, ...], scale_h: int, scale_w: int) -> tuple[int, ...]:
    """Return the shape of `[n, c, h, w]` after upsampling; raises ValueError for another rank."""
    if min(scale_h, scale_w) < 1 or len(dims) != 4:
        raise ValueError("scales of at least 1 and an operand of 4 dimensions are needed")
    n, c, h, w = dims
    return (n, c, h * scale_h, w * scale_w)
