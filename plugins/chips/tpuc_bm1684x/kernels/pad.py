"""Elements around images, and channels before and behind them, in local memory; other pads are copies in DDR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import Box, KernelChoice, Layouts, MoveKernel, Node, Phase, PlacedTile, Space, Tile, TileKernel, View
from tpuc_ops.tpu.pad import Pad

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, Scalar
from tpuc_bm1684x.kernels.common import Pair, parallel_axes, too_large
from tpuc_bm1684x.kernels.elementwise import arithmetic, tile_shape
from tpuc_bm1684x.kernels.local_moves import copy, part_of
from tpuc_bm1684x.kernels.shape import PadKernel
from tpuc_bm1684x.operands import dtype_of, operand

_SPATIAL = (1, 2, 3)


class LocalPadKernel(TileKernel[Pad]):
    """The result is filled with the value, then the operand is copied to its place."""

    def serves(self, node: Node) -> bool:
        """Are these constants around images?"""
        paddings = node.op.paddings
        if node.op.mode != "constant" or len(paddings) != 8 or min(paddings) < 0:
            return False
        return not (paddings[0] or paddings[4])

    def refuse(self, node: Node) -> str | None:
        return too_large([*node.operand_types, node.result_type])

    def space(self, node: Node) -> Space:
        n, c, h, w = node.result_type.dims
        a, b, d, e = node.operand_types[0].dims
        whole = "c" if node.op.paddings[1] else ""  # channels that change their lanes do so all at once
        return Space(parallel_axes((n, c, h, w), whole=whole), (View((a, b, d, e)),), (View((n, c, h, w)),))

    def tiling_key(self, node: Node) -> Any:
        return node.op.paddings

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        view = space.operands[0]
        assert view is not None
        ranges = [tile.range("n"), *(self._source(node, tile, axis) for axis in _SPATIAL)]
        # A tile that lies in the padding alone still reads something, which keeps the shapes legal.
        legal = [
            (start, stop) if stop > start else (min(start, extent - 1), min(start, extent - 1) + 1)
            for (start, stop), extent in zip(ranges, view.shape, strict=True)
        ]
        (a, b), (c, d), (e, f), (g, h) = legal
        return [Box((a, c, e, g), (b - a, d - c, f - e, h - g))]

    def _source(self, node: Node, tile: Tile, axis: int) -> Pair:
        """The operand's part of a tile along an axis; empty where there is only padding."""
        start, stop = tile.range("nchw"[axis])
        before, extent = node.op.paddings[axis], node.operand_types[0].dims[axis]
        low = min(max(start - before, 0), extent)
        return low, max(min(stop - before, extent), low)

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",), frozenset({0}))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        result, x = placed.result, placed.operand(0)
        kind, shape = dtype_of(result.element), tile_shape(placed.tile)
        arithmetic(asm, ArithmeticOp.COPY, shape, operand(result), Scalar.of(node.op.val, kind))
        parts = [self._source(node, placed.tile, axis) for axis in _SPATIAL]
        if any(stop <= start for start, stop in parts):
            return
        place = [0, 0, 0, 0]
        for axis, (start, _) in zip(_SPATIAL, parts, strict=True):
            place[axis] = start + node.op.paddings[axis] - placed.tile.range("nchw"[axis])[0]
        n, c, h, w = place
        kept = (shape[0], *(stop - start for start, stop in parts))
        copy(asm, (kept[0], kept[1], kept[2], kept[3]), part_of(x, (0, 0, 0, 0)), part_of(result, (n, c, h, w)))


class AnyPadKernel(KernelChoice[Pad]):
    """In local memory where that is possible."""

    def __init__(self) -> None:
        self._local, self._moves = LocalPadKernel(), PadKernel()

    def kernel(self, node: Node) -> TileKernel[Any] | MoveKernel[Any]:
        return self._local if self._local.serves(node) else self._moves
