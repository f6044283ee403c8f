"""Float rows times a constant matrix, by the matrix command."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import (
    ABSENT,
    Axis,
    Box,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    Scratch,
    Space,
    Tile,
    View,
)
from tpuc_chip_parts.tiles import RowsFilter, tile_shape
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_ops.window import Pair

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, DType, MatMul, Operand
from tpuc_cv18.isa.geometry import EU_BYTES, LANE_BYTES, round_up
from tpuc_cv18.kernels.activation import emit_limit, has_relu
from tpuc_cv18.kernels.batched import steps_of
from tpuc_cv18.kernels.common import LaneKernel
from tpuc_cv18.kernels.product import PARTIAL, constant_matrix_refusal
from tpuc_cv18.operands import MAX_EXTENT, operand
from tpuc_cv18.timing_dma import BLOCK_BYTES

_ITEM_BYTES = 2
_VECTOR = EU_BYTES // _ITEM_BYTES


def dense_splits(columns: int) -> list[Pair]:
    """All (channels, width) distributions of columns over the lanes whose width divides the columns, so that a row is
    dense.
    """
    return [(columns // width, width) for width in range(1, columns + 1) if columns % width == 0]


def narrowest(splits: Sequence[Pair], lanes: int, item_bytes: int) -> Pair:
    """Among the distributions within 10 % of the fewest steps, the one with the least memory, then the narrowest, which
    leaves the most room for tiling.
    """
    vector = EU_BYTES // item_bytes
    fewest = min(steps_of(split, vector, lanes) for split in splits)
    good = [split for split in splits if 10 * steps_of(split, vector, lanes) <= 11 * fewest]
    return min(good, key=lambda split: (split[0] * padded(split[1], item_bytes), split[1]))


def padded(width: int, item_bytes: int) -> int:
    """Bytes of a channel's columns, rounded up to 16 bytes."""
    return round_up(width * item_bytes, EU_BYTES)


class RowsKernel(RowsFilter, LaneKernel[tpu.MatMul]):
    """A row is an image whose columns are distributed over lanes and pixels, as is each row of the matrix. All
    multipliers of a lane work on one row, while a convolution uses one per pixel.

    Sums and bias are float32.
    """

    item_bytes = _ITEM_BYTES

    def serves(self, node: Node[tpu.MatMul]) -> bool:
        """True for floats where a convolution would be slower: it needs rows side by side in each lane, so that each
        element is a separate block on the memory bus.
        """
        rows, depth, width = self._extents(node)
        if not all(type_.storage.is_float for type_ in node.operand_types[:2]) or not self._fits(node):
            return False
        per_cycle, slots = self.target.bytes_per_cycle, self.lanes.slots_of(width)
        loading = depth * width * _ITEM_BYTES / per_cycle
        apart = 0 if rows == 1 else rows * (depth + width) * (BLOCK_BYTES - _ITEM_BYTES) / per_cycle
        convolution = max(-(-rows // _VECTOR) * slots * depth, loading + apart)
        product = max(rows * steps_of(self._spread(width), _VECTOR, self.lanes.count) * depth, loading)
        return product < convolution

    def _fits(self, node: Node[tpu.MatMul]) -> bool:
        """True if the smallest tile fits local memory: columns whose number has few divisors stay wide in each lane."""
        inner, outer = self._splits(node)
        planes = inner[1] + 1 + 2 * (inner[0] > 1) + 2 * (node.operand_types[2] is not ABSENT)
        return planes * padded(outer[1], _ITEM_BYTES) + padded(inner[1], _ITEM_BYTES) <= LANE_BYTES

    def refuse(self, node: Node[tpu.MatMul]) -> str | None:
        return constant_matrix_refusal(node)

    def _extents(self, node: Node) -> tuple[int, int, int]:
        """Rows, inner extent, columns."""
        depth, width = node.operand_types[0].dims[-1], node.result_type.dims[-1]
        return node.operand_types[0].size // depth, depth, width

    def _spread(self, columns: int) -> Pair:
        return narrowest(dense_splits(columns), self.lanes.count, self.item_bytes)

    def _splits(self, node: Node) -> tuple[Pair, Pair]:
        """The distributions of the left matrix and of the result."""
        _, depth, width = self._extents(node)
        return self._spread(depth), self._spread(width)

    def space(self, node: Node) -> Space:
        rows = self._extents(node)[0]
        inner, outer = self._splits(node)
        axes = (
            Axis("c", outer[0], granularity=self.lanes.count, limit=MAX_EXTENT),
            Axis("n", rows, limit=MAX_EXTENT),
            Axis("k", inner[0], reduction=True, limit=max(1, MAX_EXTENT // inner[1])),
        )
        left, result = View((rows, inner[0], 1, inner[1])), View((rows, outer[0], 1, outer[1]))
        return Space(axes, (left, *(None for _ in node.operand_types[1:])), (result,))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        (n0, n1), (k0, k1) = tile.range("n"), tile.range("k")
        left = Box((n0, k0, 0, 0), (n1 - n0, k1 - k0, 1, self._splits(node)[0][1]))
        return [left, *(None for _ in node.operand_types[1:])]

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        matrix = PackedConstant("matrix", ("c", "k"))
        return (matrix,) if node.operand_types[2] is ABSENT else (matrix, PackedConstant("bias", ("c",)))

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        channels = tile.size("c")
        inner, outer = self._splits(node)
        rows = 2 if name == "bias" else tile.size("k") * inner[1]
        return min(channels, self.lanes.count), rows * self.lanes.slots_of(channels) * padded(outer[1], self.item_bytes)

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        (_, step), (_, width) = self._splits(node)
        columns = slice(*(channel * width for channel in tile.range("c")))
        if name == "bias":
            bias = arrays[2]
            assert bias is not None
            halves = np.ascontiguousarray(bias.reshape(-1)[columns], np.float32).view(np.uint16).reshape(-1, 2)
            return self._by_lane(halves.T[::-1], width)
        inner = slice(*(channel * step for channel in tile.range("k")))
        return self._by_lane(self.filter_array(node, arrays)[columns, inner, 0, 0].T, width)

    def _by_lane(self, matrix: Array, width: int) -> Array:
        """Bytes per lane of rows whose columns are split into channels."""
        rows, columns = matrix.shape
        size = padded(width, self.item_bytes) // self.item_bytes
        spread = np.zeros((rows, columns // width, size), matrix.dtype)
        spread[..., :width] = matrix.reshape(rows, -1, width)
        return np.concatenate([self.lanes.by_lane(row) for row in spread], axis=1)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        inner, outer = self._splits(node)
        if tile.size("k") == inner[0]:
            return ()
        shape = (*tile_shape(tile)[:3], outer[1])
        return (Scratch("sums", 2 * self.planes_bytes(shape, _ITEM_BYTES)),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        left, result = placed.operand(0), placed.result
        target = operand(result)
        if phase is not Phase.ONLY:
            target = Operand(placed.scratch["sums"].address, DType.BF16)
        rows, channels, _, width = result.shape
        bias = placed.constants.get("bias")
        asm.record(
            MatMul(
                rows=rows,
                depth=left.shape[1] * left.shape[3],
                result=target,
                result_split=(channels, width),
                left=operand(left),
                left_split=(left.shape[1], left.shape[3]),
                right=Operand(placed.constants["matrix"].address, DType.BF16),
                bias=bias.address if bias is not None and phase.ends else None,
                relu=phase.ends and has_relu(node),
                partial=PARTIAL[phase],
            )
        )
        if not phase.ends:
            return
        if phase is Phase.LAST:
            asm.record(Arithmetic(operation=ArithmeticOp.COPY, shape=result.shape, result=operand(result), left=target))
        emit_limit(node, result, asm)
