"""Nearest-neighbor upsampling: repeats each element along rows and columns."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Axis, Box, Node, Phase, PlacedTile, Space, Tile, View
from tpuc_ops import tpu

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, Operand
from tpuc_cv18.kernels.common import LaneKernel, element_refusal
from tpuc_cv18.operands import MAX_EXTENT, operand

_MAX_REPEATS = 64


class UpsampleKernel(LaneKernel[tpu.Upsample]):
    """One strided copy per element of the block."""

    def refuse(self, node: Node[tpu.Upsample]) -> str | None:
        op = node.op
        if op.scale_h * op.scale_w > _MAX_REPEATS:
            return f"each element at most {_MAX_REPEATS} times, here {op.scale_h * op.scale_w} times"
        if op.do_relu:
            return "a relu has no kernel here"
        return element_refusal(node, points=True)

    def space(self, node: Node[tpu.Upsample]) -> Space:
        n, c, h, w = node.result_type.dims
        source = node.operand_types[0].dims
        axes = (
            *self.lanes.parallel_axes((n, c, h, w), "nc"),
            Axis("h", h, granularity=node.op.scale_h, limit=MAX_EXTENT),
            Axis("w", w, granularity=node.op.scale_w, limit=MAX_EXTENT),
        )
        return Space(axes, (View((source[0], source[1], source[2], source[3])),), (View((n, c, h, w)),))

    def reads(self, node: Node[tpu.Upsample], space: Space, tile: Tile) -> Sequence[Box | None]:
        ranges = [tile.range("n"), tile.range("c")]
        for name, scale in (("h", node.op.scale_h), ("w", node.op.scale_w)):
            start, stop = tile.range(name)
            ranges.append((start // scale, -(-stop // scale)))
        (n0, n1), (c0, c1), (h0, h1), (w0, w1) = ranges
        return [Box((n0, c0, h0, w0), (n1 - n0, c1 - c0, h1 - h0, w1 - w0))]

    def emit(self, node: Node[tpu.Upsample], placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        op = node.op
        x, result = placed.operand(0), operand(placed.result)
        n, c, h, w = result.strides(placed.result.shape, self.target)
        steps = (n, c, h * op.scale_h, w * op.scale_w)
        for row in range(op.scale_h):
            for column in range(op.scale_w):
                target = Operand(result.address + row * h + column * w, result.dtype, steps)
                asm.record(Arithmetic(operation=ArithmeticOp.COPY, shape=x.shape, result=target, left=operand(x)))
