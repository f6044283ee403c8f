"""Matrix products of two computed tensors, one matrix at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpuc.api import Axis, Box, Node, Phase, PlacedTile, Scratch, Space, Tile, View
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops import tpu
from tpuc_ops.shapes import is_absent
from tpuc_ops.window import Pair

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, DType, MatMul, Operand
from tpuc_cv18.isa.geometry import EU_BYTES
from tpuc_cv18.kernels.activation import emit_limit, has_relu
from tpuc_cv18.kernels.common import LaneKernel, element_refusal
from tpuc_cv18.kernels.product import PARTIAL, requantize_refusal
from tpuc_cv18.operands import MAX_EXTENT, operand


def spread(columns: int, item_bytes: int, lanes: int) -> Pair:
    """(channels, width): the distribution of matrix columns over the lanes with the fewest steps, then the least
    memory. The width divides the columns, so that rows are dense in DDR.
    """
    vector = EU_BYTES // item_bytes
    splits = [(columns // width, width) for width in range(1, columns + 1) if columns % width == 0]
    return min(splits, key=lambda split: (steps_of(split, vector, lanes), -split[1]))


def steps_of(split: Pair, vector: int, lanes: int) -> int:
    """Number of vector steps of all lanes for one result row."""
    channels, width = split
    return -(-channels // lanes) * -(-width // vector)


class BatchedMatMulKernel(LaneKernel[tpu.MatMul]):
    """Uses the matrix command: a row is an image whose columns are distributed over lanes and pixels.

    Batches are along h, one per tile.
    """

    def refuse(self, node: Node[tpu.MatMul]) -> str | None:
        op = node.op
        left, right, *others = node.operand_types
        if op.left_transpose or op.right_transpose or op.output_transpose:
            return "transposed operands and results have no kernel; permute them first"
        if any(not is_absent(type_) for type_ in others):
            return "a product of computed tensors takes no bias"
        if left.dims[:-2] != right.dims[:-2]:
            return "both operands must have the same number of matrices; repeat or reshape one of them"
        if len(op.multipliers) > 1:
            return "one multiplier for all columns"
        if left.storage.is_float != right.storage.is_float:
            return "both operands must be integers, or both floats"
        if not (left.storage.is_float or _is_signed(node) or node.result_type.storage.is_unsigned):
            return "the product of unsigned operands must be unsigned"
        return element_refusal(Node(op, (left, right), node.result_types, node.name)) or requantize_refusal(
            node, op.multipliers, op.rshifts
        )

    def _extents(self, node: Node) -> tuple[int, int, int, int]:
        """Number of matrices, rows, inner extent, columns."""
        *batch, rows, depth = node.operand_types[0].dims
        return math.prod(batch), rows, depth, node.result_type.dims[-1]

    def space(self, node: Node) -> Space:
        count, rows, depth, width = self._extents(node)
        item = node.operand_types[0].storage.bits // 8
        inner, outer = (spread(columns, item, self.lanes.count) for columns in (depth, width))
        left = View((rows, inner[0], count, inner[1]), (depth, inner[1], rows * depth, 1))
        right = View((depth, outer[0], count, outer[1]), (width, outer[1], depth * width, 1))
        result = View((rows, outer[0], count, outer[1]), (width, outer[1], rows * width, 1))
        most = max(1, MAX_EXTENT // inner[1])
        axes = (
            Axis("h", count, limit=1),
            Axis("c", outer[0], granularity=self.lanes.count, limit=MAX_EXTENT),
            Axis("n", rows, limit=MAX_EXTENT),
            Axis("k", inner[0], reduction=True, limit=most),
        )
        return Space(axes, (left, right, *(None for _ in node.operand_types[2:])), (result,))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        left, right = space.operands[:2]
        assert left is not None
        assert right is not None
        (h0, h1), (c0, c1), (n0, n1), (k0, k1) = (tile.range(name) for name in "hcnk")
        step = left.shape[3]
        return [
            Box((n0, k0, h0, 0), (n1 - n0, k1 - k0, h1 - h0, step)),
            Box((k0 * step, c0, h0, 0), ((k1 - k0) * step, c1 - c0, h1 - h0, right.shape[3])),
            *(None for _ in node.operand_types[2:]),
        ]

    def _is_cut(self, node: Node, tile: Tile) -> bool:
        depth, item = self._extents(node)[2], node.operand_types[0].storage.bits // 8
        return tile.size("k") < spread(depth, item, self.lanes.count)[0]

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        if not self._is_cut(node, tile):
            return ()
        item = node.operand_types[0].storage.bits // 8
        shape = self._rows(node, tile)
        return (Scratch("sums", (2 if item > 1 else 4) * self.planes_bytes(shape, item)),)

    def _rows(self, node: Node, tile: Tile) -> tuple[int, int, int, int]:
        """Extents of the tile's part of the result."""
        n, c, h, _ = tile_shape(tile)
        item = node.operand_types[0].storage.bits // 8
        _, width = spread(self._extents(node)[3], item, self.lanes.count)
        return (n, c, h, width)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        left, right, result = placed.operand(0), placed.operand(1), placed.result
        target = operand(result)
        if phase is not Phase.ONLY:
            kind = target.dtype
            if not kind.is_float and not phase.ends:
                kind = DType.INT8 if _is_signed(node) else DType.UINT8
            target = Operand(placed.scratch["sums"].address, kind)
        rows, channels, _, width = result.shape
        multipliers, shifts = node.op.multipliers, node.op.rshifts
        asm.record(
            MatMul(
                rows=rows,
                depth=right.shape[0],
                result=target,
                result_split=(channels, width),
                left=operand(left),
                left_split=(left.shape[1], left.shape[3]),
                right=operand(right),
                multiplier=multipliers[0] if multipliers and phase.ends else None,
                shift=shifts[0] if shifts and phase.ends else 0,
                relu=phase.ends and has_relu(node) and _is_signed(node),
                partial=PARTIAL[phase],
            )
        )
        if not phase.ends:
            return
        if phase is Phase.LAST:
            asm.record(Arithmetic(operation=ArithmeticOp.COPY, shape=result.shape, result=operand(result), left=target))
        emit_limit(node, result, asm)


def _is_signed(node: Node) -> bool:
    """True when sums may be negative."""
    return not all(type_.storage.is_unsigned for type_ in node.operand_types[:2])
