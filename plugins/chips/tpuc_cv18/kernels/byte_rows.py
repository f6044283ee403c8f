"""One row of integers times a constant matrix, by the matrix command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import ABSENT, Axis, Node, PackedConstant, Phase, PlacedTile, Scratch, Space, Tile
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_ops.window import Pair

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, ChannelBlock, Conv, DType, Layout, MatMul, Operand, PartialSum
from tpuc_cv18.isa.geometry import EU_BYTES, LANE_BYTES, REQUANTIZE_LEAST
from tpuc_cv18.kernels.activation import emit_limit, has_relu
from tpuc_cv18.kernels.batched import steps_of
from tpuc_cv18.kernels.packing import BLOCK_BYTES, BLOCK_WITH_BIAS_BYTES, channel_blocks
from tpuc_cv18.kernels.rows import RowsKernel, dense_splits, narrowest, padded
from tpuc_cv18.operands import MAX_EXTENT, dtype_of, operand

_SUM_PLANES = 4
_LEAST_TILES = 4
"""Number of the smallest matrix tiles that must fit in local memory."""
_WORTH = 500
"""Minimum gain in cycles: neighboring layers may have to convert their layout."""


class ByteRowsKernel(RowsKernel):
    """Accumulates with the matrix command, in byte planes, because that command has only one multiplier for all
    columns. A convolution that reads nothing but padding then adds 0 to the sums and requantizes them: where
    channels have one element without gaps, its channel b * lanes + l is byte b of lane l.
    """

    item_bytes = 1

    def serves(self, node: Node[tpu.MatMul]) -> bool:
        """True for a single row where a convolution would be slower."""
        rows, depth, width = self._extents(node)
        if rows != 1 or any(type_.storage.is_float for type_ in node.operand_types[:2]) or not self.finishes(node):
            return False
        split, lanes = self._spread(width), self.lanes.count
        least = self._spread(depth)[1] * padded(split[1], 1)
        if lanes * padded(split[1], 1) > MAX_EXTENT or least > LANE_BYTES // _LEAST_TILES:
            return False
        loading = depth * width / self.target.bytes_per_cycle
        convolution = self.lanes.slots_of(width) * max(-(-depth // 2), REQUANTIZE_LEAST)
        product = depth * steps_of(split, EU_BYTES, lanes) + self.lane_bytes(split) * REQUANTIZE_LEAST
        return max(loading, convolution) - max(loading, product) >= _WORTH

    def finishes(self, node: Node[tpu.MatMul]) -> bool:
        """True when the kernel's epilogue produces the node's result."""
        return bool(node.op.multipliers)

    def _spread(self, columns: int) -> Pair:
        """Distribution without gaps between the columns of a lane."""
        whole = [
            (channels, width)
            for channels, width in dense_splits(columns)
            if channels <= self.lanes.count or width % EU_BYTES == 0
        ]
        return narrowest(whole, self.lanes.count, 1)

    def lane_bytes(self, split: Pair) -> int:
        """Bytes per lane of one plane of the columns."""
        channels, width = split
        return self.lanes.slots_of(channels) * padded(width, 1)

    def space(self, node: Node) -> Space:
        space, lanes = super().space(node), self.lanes.count
        channels, width = self._splits(node)[1]
        limit = MAX_EXTENT // (lanes * padded(width, 1)) * lanes
        axes = tuple(Axis("c", channels, granularity=lanes, limit=limit) if a.name == "c" else a for a in space.axes)
        return Space(axes, space.operands, space.results)

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("matrix", ("c", "k")), PackedConstant("block", ("c",)))

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        if name != "block":
            return super().constant_shape(node, name, tile)
        size = BLOCK_BYTES if node.operand_types[2] is ABSENT else BLOCK_WITH_BIAS_BYTES
        return self.lanes.count, self.lane_bytes((tile.size("c"), self._splits(node)[1][1])) * size

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        if name != "block":
            return super().pack(node, name, tile, arrays)
        requantization = _requantization(node)
        biases, multipliers, shifts = self.by_channel(node, tile, [arrays[2], *requantization], np.dtype(np.int64))
        bias = None if arrays[2] is None else biases
        return channel_blocks(self.lanes, bias, multipliers.tolist(), shifts.tolist())

    def by_channel(
        self, node: Node, tile: Tile, rows: Sequence[Array | Sequence[float] | None], dtype: np.dtype[Any]
    ) -> Array:
        """Arrange per-column parameters in the channel order of the epilogue's convolution, with zeros for padding."""
        width = self._splits(node)[1][1]
        first, last = tile.range("c")
        spread = np.zeros((len(rows), self.lanes.slots_of(last - first) * self.lanes.count, padded(width, 1)), dtype)
        columns = slice(first * width, last * width)
        for row, values in zip(spread, rows, strict=True):
            if values is not None:
                row[: last - first, :width] = np.asarray(values).reshape(-1)[columns].reshape(-1, width)
        # From (group of lanes, lane, byte) to (group of lanes, byte, lane).
        apart = spread.reshape(len(rows), -1, self.lanes.count, padded(width, 1))
        return apart.transpose(0, 1, 3, 2).reshape(len(rows), -1)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        shape = (*tile_shape(tile)[:3], self._splits(node)[1][1])
        return (Scratch("sums", _SUM_PLANES * self.planes_bytes(shape)),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        left, result = placed.operand(0), placed.result
        matrix, sums = self.sum_up(node, placed, phase, asm), placed.scratch["sums"].address
        if not phase.ends:
            return
        _, channels, _, width = result.shape
        asm.record(
            Conv(
                result=Operand(sums, operand(result).dtype, Layout.COMPACT),
                result_shape=(1, self.lane_bytes((channels, width)) * self.lanes.count, 1, 1),
                input=operand(left),
                input_shape=(1, 1, 1),
                weight=Operand(matrix.address, matrix.dtype, Layout.COMPACT),
                stride=(2, 1),
                pads=(1, 0, 0, 0),
                block=ChannelBlock(placed.constants["block"].address, node.operand_types[2] is not ABSENT),
                relu=has_relu(node),
                partial=PartialSum.LAST,
            )
        )
        done = Operand(sums, operand(result).dtype)
        asm.record(Arithmetic(operation=ArithmeticOp.COPY, shape=result.shape, result=operand(result), left=done))
        emit_limit(node, result, asm)

    def sum_up(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> Operand:
        """Record the command that accumulates the products; returns the matrix."""
        left = placed.operand(0)
        _, channels, _, width = placed.result.shape
        matrix = Operand(placed.constants["matrix"].address, dtype_of(node.operand_types[1].storage))
        asm.record(
            MatMul(
                rows=1,
                depth=left.shape[1] * left.shape[3],
                result=Operand(placed.scratch["sums"].address, DType.INT8),
                result_split=(channels, width),
                left=operand(left),
                left_split=(left.shape[1], left.shape[3]),
                right=matrix,
                partial=PartialSum.FIRST if phase in (Phase.ONLY, Phase.FIRST) else PartialSum.MIDDLE,
            )
        )
        return matrix


def _requantization(node: Node[tpu.MatMul]) -> tuple[Sequence[int], Sequence[int]]:
    """One multiplier and one shift per column."""
    op, width = node.op, node.result_type.dims[-1]
    many = width if len(op.multipliers) == 1 else 1
    return (*op.multipliers,) * many, (*op.rshifts,) * many
