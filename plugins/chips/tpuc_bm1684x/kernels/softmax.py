"""Softmax in f32: the axis lies along w of each lane, so sums and maxima are pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy.typing as npt
from tpuc.api import Layouts, Node, PackedConstant, Phase, PlacedTile, Scratch, Shape4, Space, Tile, TileKernel, View
from tpuc_ops.tiles import tile_shape
from tpuc_ops.tpu.softmax import Softmax

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, PoolOp, PoolOrDepthwise, Scalar
from tpuc_bm1684x.isa.geometry import LANES
from tpuc_bm1684x.kernels.binary import DIVISION_STEPS
from tpuc_bm1684x.kernels.common import matrices_view, parallel_axes
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.kernels.exponential import (
    COEFFICIENTS,
    COEFFICIENTS_SHAPE,
    Exponential,
    coefficients,
    exponential_scratch,
)
from tpuc_bm1684x.kernels.pool import lowest
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_bm1684x.operands import MAX_EXTENT, operand

Array: TypeAlias = npt.NDArray[Any]


class SoftmaxKernel(TileKernel[Softmax]):
    """e**(x - max) over its sum."""

    def refuse(self, node: Node) -> str | None:
        op: Softmax = node.op
        if op.log:
            return "log softmax has no kernel yet"
        if node.operand_types[0].storage.name != "f32":
            return f"only f32, this one is {node.operand_types[0].storage.name}"
        width = node.operand_types[0].dims[op.axis]
        if width > MAX_EXTENT:
            return f"at most {MAX_EXTENT} values along the axis, this one has {width}"
        return None

    def _view(self, node: Node) -> View:
        dims = node.operand_types[0].dims
        op: Softmax = node.op
        axis = op.axis % len(dims)
        if axis == len(dims) - 1 and len(dims) > 1 and dims[-2] >= min(math.prod(dims[:-1]), LANES):
            return View(matrices_view(dims))
        outer, inner = math.prod(dims[:axis]), math.prod(dims[axis + 1 :])
        width = dims[axis]
        return View((1, outer, inner, width), (outer * width * inner, width * inner, 1, inner))

    def space(self, node: Node) -> Space:
        view = self._view(node)
        operands = (view, *(None for _ in node.operand_types[1:]))
        return Space(parallel_axes(view.shape, whole="w" if view.strides else "h"), operands, (view,))

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",) * len(node.operand_types), ("aligned",))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (COEFFICIENTS,)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return COEFFICIENTS_SHAPE

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        return coefficients()

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        n, c, h, w = self._rows(node, tile_shape(tile))
        column = Bm1684xLmem().tensor_bytes("aligned", (n, c, h, 1), 4)
        return (*exponential_scratch((n, c, h, w)), Scratch("column", column))

    def _rows(self, node: Node, shape: Shape4) -> Shape4:
        """The axis along w, where the view has it along h: a plane of one column is a plane of one row."""
        n, c, h, w = shape
        return shape if self._view(node).strides else (n, c, w, h)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape = self._rows(node, placed.result.shape)
        column = Operand(placed.scratch["column"].address, DType.F32)
        exponential = Exponential.at(asm, shape, placed.scratch, placed.constants)
        repeated = Operand(column.address, DType.F32, _repeat_column(column, shape))

        self._reduce(PoolOp.MAX, operand(placed.operand(0)), column, shape, asm)
        arithmetic(asm, ArithmeticOp.SUB, shape, exponential.s, operand(placed.operand(0)), repeated)
        if node.op.beta != 1.0:
            arithmetic(asm, ArithmeticOp.MUL, shape, exponential.s, exponential.s, Scalar.of(node.op.beta, DType.F32))
        s = operand(placed.result)
        exponential.emit(s)
        self._reduce(PoolOp.AVERAGE, s, column, shape, asm)
        arithmetic(asm, ArithmeticOp.DIV, shape, s, s, repeated, iterations=DIVISION_STEPS)

    def _reduce(
        self, operation: PoolOp, source: Operand, column: Operand, shape: Shape4, asm: Bm1684xAssembler
    ) -> None:
        n, c, h, w = shape
        asm.record(
            PoolOrDepthwise(
                operation=operation,
                result=column,
                shape=(n, c, h, 1),
                input=source,
                input_size=(h, w),
                kernel=(1, w),
                weight=Scalar.of(1.0, DType.F32) if operation is PoolOp.AVERAGE else None,
                pad_value=lowest(DType.F32) if operation is PoolOp.MAX else None,
            )
        )


def _repeat_column(column: Operand, shape: Shape4) -> Shape4:
    n, c, h, _ = shape
    batch, slot, row, _ = column.strides((n, c, h, 1))
    return (batch, slot, row, 0)
