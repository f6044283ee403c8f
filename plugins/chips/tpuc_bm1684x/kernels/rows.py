"""Gather and scatter of rows, by DDR transfers whose addresses come from an operand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from tpuc.api import ABSENT, Move, MoveKernel, Node, RowMove
from tpuc_chip_parts.copies import MAX_COPIES, Copy, dense_strides

from tpuc_bm1684x.kernels.copies import moves_of
from tpuc_bm1684x.operands import MAX_EXTENT


class RowKernel(MoveKernel[Any]):
    """Base of row moves: one transfer for all channels, or several where an extent exceeds its field."""

    def refuse(self, node: Node) -> str | None:
        if node.operand_types[1].storage.name not in ("i32", "si32"):
            return f"indices of int32, these are {node.operand_types[1].storage}"
        channels, _, width = node.result_type.dims
        count = math.ceil(channels / MAX_EXTENT) * math.ceil(width / MAX_EXTENT)
        return f"at most {MAX_COPIES} copies, this one needs {count}" if count > MAX_COPIES else None

    def parts(self, node: Node, moved_rows: int, rows: int, scatters: bool) -> Iterator[RowMove]:
        """Moves of `moved_rows` rows per channel, gathered from or scattered to `rows` rows."""
        channels, _, width = node.result_type.dims
        index_channels = node.operand_types[1].dims[0]
        plain, chosen = (moved_rows * width, width), (rows * width, width)
        source, target = (plain, chosen) if scatters else (chosen, plain)
        for first in range(0, channels, MAX_EXTENT):
            for column in range(0, width, MAX_EXTENT):
                extents = (min(MAX_EXTENT, channels - first), moved_rows, min(MAX_EXTENT, width - column))
                yield RowMove(
                    operand=2 if scatters else 0,
                    shape=(1, *extents),
                    source_offset=first * source[0] + column,
                    source_strides=(0, *source, 1),
                    target_offset=first * target[0] + column,
                    target_strides=(0, *target, 1),
                    index=1,
                    index_offset=first * moved_rows if index_channels > 1 else 0,
                    index_strides=(moved_rows if index_channels > 1 else 0, 1),
                    rows=rows,
                    scatters=scatters,
                )


class GatherRowsKernel(RowKernel):
    """Copies the indexed rows in index order."""

    def moves(self, node: Node) -> Sequence[Move]:
        return list(self.parts(node, node.result_type.dims[1], node.operand_types[0].dims[1], False))


class ScatterRowsKernel(RowKernel):
    """Copies the tensor, then writes each update to its row."""

    def moves(self, node: Node) -> Sequence[Move]:
        dims = node.result_type.dims
        moves: list[Move] = []
        if node.operand_types[0] is not ABSENT:
            strides = dense_strides(dims)
            moves += moves_of(Copy(0, dims, 0, strides, 0, strides), node.result_type.storage)
        return [*moves, *self.parts(node, node.operand_types[2].dims[1], dims[1], True)]
