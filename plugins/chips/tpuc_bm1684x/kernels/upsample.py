"""Nearest-neighbor upsampling: each element becomes a block."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Axis, Box, Node, Phase, PlacedTile, Space, Tile, TileKernel, View, elementwise_view
from tpuc_ops import tpu

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, Operand
from tpuc_bm1684x.kernels.activation import emit_relu
from tpuc_bm1684x.kernels.common import OfChip
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.operands import MAX_EXTENT, operand


class UpsampleKernel(OfChip, TileKernel[tpu.Upsample, Bm1684xAssembler]):
    """One strided copy per element of the block, to every `scale_h`-th row and `scale_w`-th column."""

    def space(self, node: Node) -> Space:
        result = View(elementwise_view(node.result_type.dims))
        n, c, h, w = result.shape
        axes = (
            Axis("n", n, limit=MAX_EXTENT),
            Axis("c", c, granularity=self.lanes.count, limit=MAX_EXTENT),
            Axis("h", h, granularity=node.op.scale_h, limit=MAX_EXTENT),
            Axis("w", w, granularity=node.op.scale_w, limit=MAX_EXTENT),
        )
        return Space(axes, (View(elementwise_view(node.operand_types[0].dims)),), (result,))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        start: list[int] = []
        shape: list[int] = []
        for name, scale in zip("nchw", (1, 1, node.op.scale_h, node.op.scale_w), strict=True):
            first, end = tile.range(name)
            start.append(first // scale)
            shape.append((end - first) // scale)
        return [Box((start[0], start[1], start[2], start[3]), (shape[0], shape[1], shape[2], shape[3]))]

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        x, result = placed.operand(0), operand(placed.result)
        batch, slot, row, column = result.strides(placed.result.shape, self.target)
        steps = (batch, slot, row * node.op.scale_h, column * node.op.scale_w)
        for down in range(node.op.scale_h):
            for right in range(node.op.scale_w):
                place = result.address + (down * row + right * column) * result.dtype.bytes
                arithmetic(asm, ArithmeticOp.COPY, x.shape, Operand(place, result.dtype, steps), operand(x))
        emit_relu(node, placed.result, asm)
