"""Pad images and channels in local memory; other pads are copies in DDR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import Box, KernelChoice, Layouts, MoveKernel, Node, Phase, PlacedTile, Space, Tile, TileKernel, View
from tpuc_chip_parts.tiles import kept_part, padded_box, tile_shape
from tpuc_ops import tpu

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, Scalar
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.kernels.borders import LocalBorderKernel
from tpuc_bm1684x.kernels.common import OfChip, too_large
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.kernels.local_moves import copy, part_of
from tpuc_bm1684x.kernels.shape import PadKernel
from tpuc_bm1684x.operands import dtype_of, operand


class LocalPadKernel(OfChip, TileKernel[tpu.Pad, Bm1684xAssembler]):
    """Fills the result with the pad value, then copies the operand into it."""

    def serves(self, node: Node) -> bool:
        """True for constant padding of channels, rows and columns of four-dimensional tensors."""
        paddings = node.op.paddings
        if node.op.mode != "constant" or len(paddings) != 8 or min(paddings) < 0:
            return False
        return not (paddings[0] or paddings[4])

    def refuse(self, node: Node) -> str | None:
        return too_large([*node.operand_types, node.result_type])

    def space(self, node: Node) -> Space:
        n, c, h, w = node.result_type.dims
        a, b, d, e = node.operand_types[0].dims
        whole = "c" if node.op.paddings[1] else ""  # channels that move to other lanes are not split
        return Space(self.lanes.parallel_axes((n, c, h, w), whole=whole), (View((a, b, d, e)),), (View((n, c, h, w)),))

    def tiling_key(self, node: Node) -> Any:
        return node.op.paddings

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        return [padded_box(node, tile)]

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",), frozenset({0}))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        result, x = placed.result, placed.operand(0)
        kind, shape = dtype_of(result.element), tile_shape(placed.tile)
        arithmetic(asm, ArithmeticOp.COPY, shape, operand(result), Scalar.of(node.op.val, kind))
        part = kept_part(node, placed.tile)
        if part is not None:
            place, kept = part
            chip = self.target
            copy(asm, kept, part_of(x, (0, 0, 0, 0), target=chip), part_of(result, place, target=chip))


class AnyPadKernel(KernelChoice[tpu.Pad]):
    """Chooses padding in local memory where possible, else copies in DDR."""

    def __init__(self, target: Target = BM1684X) -> None:
        self._local, self._border = LocalPadKernel(target), LocalBorderKernel(target)
        self._moves = PadKernel(target)

    def kernel(self, node: Node) -> TileKernel[Any, Bm1684xAssembler] | MoveKernel[Any]:
        if self._local.serves(node):
            return self._local
        return self._border if self._border.serves(node) else self._moves
