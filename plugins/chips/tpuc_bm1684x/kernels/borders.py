"""Repeat or mirror the border of images in local memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import Box, Layouts, Node, Phase, PlacedTile, Shape4, Space, Tile, TileKernel, View
from tpuc_ops import tpu
from tpuc_ops.arrays import Array

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.kernels.common import OfChip, too_large
from tpuc_bm1684x.kernels.local_moves import copy, part_of

MOST_MIRRORED = 8
"""Rows or columns on one side that are copied one by one."""


class LocalBorderKernel(OfChip, TileKernel[tpu.Pad, Bm1684xAssembler]):
    """Copies the operand into the result by rows, then fills the columns on both sides from the result's own."""

    def serves(self, node: Node) -> bool:
        """True for repeated or mirrored rows and columns of four-dimensional tensors."""
        paddings = node.op.paddings
        if node.op.mode == "constant" or len(paddings) != 8 or min(paddings) < 0:
            return False
        sides = [*paddings[2:4], *paddings[6:]]
        return sum(sides) == sum(paddings) and (node.op.mode == "edge" or max(sides) <= MOST_MIRRORED)

    def refuse(self, node: Node) -> str | None:
        return too_large([*node.operand_types, node.result_type])

    def space(self, node: Node) -> Space:
        shape, source = node.result_type.dims, node.operand_types[0].dims
        axes = self.lanes.parallel_axes((shape[0], shape[1], shape[2], shape[3]), whole="w")
        return Space(axes, (View((source[0], source[1], source[2], source[3])),), (View(_four(shape)),))

    def tiling_key(self, node: Node) -> Any:
        return node.op.mode, node.op.paddings

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",), frozenset({0}))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        (n0, n1), (c0, c1) = tile.range("n"), tile.range("c")
        rows = _rows(node, tile)
        first = int(rows.min())
        return [Box((n0, c0, first, 0), (n1 - n0, c1 - c0, int(rows.max()) + 1 - first, node.operand_types[0].dims[3]))]

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        x, result, chip = placed.operand(0), placed.result, self.target
        n, c, h, _ = result.shape
        before, after, width = node.op.paddings[3], node.op.paddings[7], x.shape[3]
        rows = _rows(node, placed.tile)
        for start, count, step in _runs(rows - rows.min()):
            source = part_of(x, (0, 0, int(rows[start] - rows.min()), 0), (1, 1, step, 1), chip)
            copy(asm, (n, c, count, width), source, part_of(result, (0, 0, start, before), target=chip))
        columns = _places(width, before, after, node.op.mode)
        for place, count in ((0, before), (before + width, after)):
            for start, length, step in _runs(columns[place : place + count]):
                source = part_of(result, (0, 0, 0, before + int(columns[place + start])), (1, 1, 1, step), chip)
                copy(asm, (n, c, h, length), source, part_of(result, (0, 0, 0, place + start), target=chip))


def _rows(node: Node, tile: Tile) -> Array:
    """The operand's rows that the rows of a tile repeat."""
    start, stop = tile.range("h")
    return _places(node.operand_types[0].dims[2], node.op.paddings[2], node.op.paddings[6], node.op.mode)[start:stop]


def _places(extent: int, before: int, after: int, mode: str) -> Array:
    """Per place of the result along a dimension, the place of the operand."""
    return np.pad(np.arange(extent), (before, after), mode="edge" if mode == "edge" else "reflect")


def _runs(places: Array) -> list[tuple[int, int, int]]:
    """Start, length and step of the runs of places that repeat one place, or follow each other."""
    runs: list[tuple[int, int, int]] = []
    start = 0
    while start < len(places):
        step = int(places[start + 1] - places[start]) if start + 1 < len(places) else 1
        stop = start + 1
        while step in (0, 1) and stop < len(places) and places[stop] - places[stop - 1] == step:
            stop += 1
        runs.append((start, stop - start, step if stop - start > 1 else 1))
        start = stop
    return runs


def _four(dims: Sequence[int]) -> Shape4:
    n, c, h, w = dims
    return (n, c, h, w)
