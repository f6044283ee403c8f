"""Rearrangement of channels as blocks of rows and columns, or back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import I64, Bool, Node, Op, Types

from tpuc_ops.arrays import Array
from tpuc_ops.shapes import show
from tpuc_ops.traits import Rearranges, TakesResultRange


@dataclass(frozen=True)
class Depth2Space(Op, Rearranges, TakesResultRange):
    """Rearrange `x: [n, c, h, w]` as `[n, c / (bh * bw), h * bh, w * bw]`; back with `is_inversed`.

    Channels are numbered, from slowest to fastest, as (channel, row, column of the block) if `is_CRD`, else as (row,
    column, channel).
    """

    name = "top.Depth2Space"
    block_h: I64
    block_w: I64
    is_CRD: Bool  # noqa: N815  # the peer's attribute
    is_inversed: Bool
    in_is_NCHW: Bool = True  # noqa: N815  # the peer's attribute
    out_is_NCHW: Bool = True  # noqa: N815  # the peer's attribute
    swap_cr: Bool = False

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if not (self.in_is_NCHW and self.out_is_NCHW) or self.swap_cr:
            raise ValueError("only NCHW without swap_cr is supported; permute the operand instead")
        if x.rank != 4:
            raise ValueError(f"an operand of 4 dimensions is needed, this one is {show(x.dims)}")
        n, c, h, w = x.dims
        block = self.block_h * self.block_w
        if self.is_inversed:
            if h % self.block_h or w % self.block_w:
                raise ValueError(f"blocks of {self.block_h}x{self.block_w} do not divide {show(x.dims)}")
            return (x.shape_only().with_shape((n, c * block, h // self.block_h, w // self.block_w)),)
        if c % block:
            raise ValueError(f"blocks of {self.block_h}x{self.block_w} do not divide {c} channels")
        return (x.shape_only().with_shape((n, c // block, h * self.block_h, w * self.block_w)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        (x,) = operands
        bh, bw = self.block_h, self.block_w
        result = node.result_type.dims
        if self.is_inversed:
            n, c, h, w = x.shape
            blocks = x.reshape(n, c, h // bh, bh, w // bw, bw)
            order = (0, 1, 3, 5, 2, 4) if self.is_CRD else (0, 3, 5, 1, 2, 4)
            return [blocks.transpose(order).reshape(result)]
        n, c, h, w = x.shape
        if self.is_CRD:
            return [x.reshape(n, -1, bh, bw, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(result)]
        return [x.reshape(n, bh, bw, -1, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(result)]
