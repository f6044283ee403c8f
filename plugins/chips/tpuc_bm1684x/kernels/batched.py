"""Products of two computed tensors, matrix by matrix: the right one lies in local memory as a filter would."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tpuc.api import Box, KernelChoice, Node, Phase, PlacedTile, Scratch, Space, Tile, TileKernel, View
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops import tpu
from tpuc_ops.quant.arithmetic import Rounding
from tpuc_ops.shapes import is_absent

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import Conv, DType, Layout, Operand
from tpuc_bm1684x.isa.geometry import EU_BYTES, LANES, round_up
from tpuc_bm1684x.kernels.activation import emit_relu
from tpuc_bm1684x.kernels.binary import emit_rescale
from tpuc_bm1684x.kernels.common import parallel_axes, zero_point_refusal
from tpuc_bm1684x.kernels.matrices import MatricesKernel, TurnedMatricesKernel
from tpuc_bm1684x.kernels.row_products import ConstantMatMulKernel
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_bm1684x.operands import MAX_EXTENT, dtype_of, operand


class BatchedMatMulKernel(TileKernel[tpu.MatMul, Bm1684xAssembler]):
    """One 1×1 convolution per matrix and 64 columns: rows lie along h, inner extents over the lanes.

    A column of the right matrix lies in the lane of the result's column, padded to whole vectors: a filter of as many
    input channels as the columns have elements.
    """

    def refuse(self, node: Node[tpu.MatMul]) -> str | None:
        left, right, *others = node.operand_types
        if node.op.left_transpose or node.op.output_transpose:
            return "left_transpose and output_transpose are not supported"
        if any(not is_absent(type_) for type_ in others):
            return "a product of computed tensors takes no bias"
        if left.dims[:-2] != right.dims[:-2]:
            return "both operands have the same number of matrices; repeat or reshape one of them"
        if len(node.op.multipliers) > 1:
            return "one multiplier for all columns"
        if max(math.prod(left.dims[:-2]), *left.dims[-2:], *right.dims[-2:]) > MAX_EXTENT:
            return f"at most {MAX_EXTENT} matrices, rows and columns"
        return zero_point_refusal([left, right])

    def _extents(self, node: Node) -> tuple[int, int, int, int]:
        """Matrices, rows, inner extent, columns."""
        *batch, rows, depth = node.operand_types[0].dims
        return math.prod(batch), rows, depth, node.result_type.dims[-1]

    def space(self, node: Node) -> Space:
        count, rows, depth, width = self._extents(node)
        left = View((count, depth, rows, 1), (rows * depth, 1, depth, 1))
        steps = (depth, 1) if node.op.right_transpose else (1, width)
        right = View((count, width, 1, depth), (depth * width, steps[0], 1, steps[1]))
        result = View((count, width, rows, 1), (rows * width, 1, width, 1))
        operands = (left, right, *(None for _ in node.operand_types[2:]))
        return Space(parallel_axes(result.shape, "nchw", whole="w"), operands, (result,))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        depth = self._extents(node)[2]
        (n0, n1), (c0, c1), (h0, h1) = (tile.range(name) for name in "nch")
        return [
            Box((n0, 0, h0, 0), (n1 - n0, depth, h1 - h0, 1)),
            Box((n0, c0, 0, 0), (n1 - n0, c1 - c0, 1, depth)),
            *(None for _ in node.operand_types[2:]),
        ]

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        if not node.op.multipliers:
            return ()
        return (Scratch("sum", Bm1684xLmem().tensor_bytes("aligned", tile_shape(tile), 4)),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        left, right, result = placed.operand(0), placed.operand(1), placed.result
        depth = left.shape[1]
        target = Operand(placed.scratch["sum"].address, DType.INT32) if node.op.multipliers else operand(result)
        source, strides = operand(left), target.strides(result.shape)
        matrix = dtype_of(right.element)
        column = round_up(depth * matrix.bytes, EU_BYTES)
        slots = -(-result.shape[1] // LANES)
        for batch in range(result.shape[0]):
            first = source.address + batch * source.strides(left.shape)[0] * source.dtype.bytes
            for slot in range(slots):
                place = target.address + (batch * strides[0] + slot * strides[1]) * target.dtype.bytes
                columns = min(LANES, result.shape[1] - slot * LANES)
                filters = right.address + (batch * slots + slot) * column
                asm.record(
                    Conv(
                        result=Operand(place, target.dtype),
                        result_shape=(1, columns, result.shape[2], 1),
                        input=Operand(first, source.dtype),
                        input_shape=left.shape[1:],
                        weight=Operand(filters, matrix, Layout.COMPACT),
                    )
                )
        if node.op.multipliers:
            point = node.result_type.uniform.zero_point
            (multiplier,), (shift,) = node.op.multipliers, node.op.rshifts
            emit_rescale(target, result, point, multiplier, shift, Rounding(node.op.round_mode), asm)
        emit_relu(node, result, asm)


class AnyMatMulKernel(KernelChoice[tpu.MatMul]):
    """A right operand of two dimensions is a constant; of more, computed.

    Rows of computed tensors come to the lanes as they lie in DDR wherever that can be: across the lanes, as the plain
    convolution wants them, each element is a transfer of its own.
    """

    def __init__(self) -> None:
        self._constant, self._computed = ConstantMatMulKernel(), BatchedMatMulKernel()
        self._by_rows = (MatricesKernel(), TurnedMatricesKernel())

    def kernel(self, node: Node) -> TileKernel[Any, Bm1684xAssembler]:
        if len(node.operand_types[1].dims) == 2:
            return self._constant
        if self._computed.refuse(node) is not None:
            return self._computed
        return next((kernel for kernel in self._by_rows if kernel.suits(node)), self._computed)
