"""Softmax in f32: the axis is along w or h within each lane, so sums and maxima are pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpuc.api import Candidate, Node, PackedConstant, Phase, PlacedTile, Scratch, Shape4, Space, Tile, TileKernel, View
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops import tpu
from tpuc_ops.arrays import Array

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, PoolOp, PoolOrDepthwise, Scalar
from tpuc_bm1684x.kernels.binary import DIVISION_STEPS
from tpuc_bm1684x.kernels.common import FEW_LANES, SHORT_RUN, OfChip, in_spaces, matrices_view, row_blocks
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.kernels.exponential import (
    COEFFICIENTS,
    COEFFICIENTS_SHAPE,
    Exponential,
    coefficients,
    exponential_scratch,
)
from tpuc_bm1684x.kernels.pool import lowest
from tpuc_bm1684x.operands import MAX_EXTENT, operand


class SoftmaxKernel(OfChip, TileKernel[tpu.Softmax, Bm1684xAssembler]):
    """e**(x - max) divided by its sum."""

    def refuse(self, node: Node[tpu.Softmax]) -> str | None:
        if node.op.log:
            return "log softmax has no kernel yet"
        if node.operand_types[0].storage.name != "f32":
            return f"only f32, this one is {node.operand_types[0].storage.name}"
        width = node.operand_types[0].dims[node.op.axis]
        if width > MAX_EXTENT:
            return f"at most {MAX_EXTENT} values along the axis, this one has {width}"
        return None

    def _view(self, node: Node[tpu.Softmax]) -> View:
        return self._views(node)[0]

    def _views(self, node: Node[tpu.Softmax]) -> Sequence[View]:
        """Candidate views: the dimensions before the axis, or those after it, are distributed over the lanes."""
        dims = node.operand_types[0].dims
        axis = node.op.axis % len(dims)
        blocks = row_blocks(dims, self.target) if axis == len(dims) - 1 else None
        if blocks is not None:
            return (blocks,)
        if axis == len(dims) - 1 and len(dims) > 1 and dims[-2] >= min(math.prod(dims[:-1]), self.lanes.count):
            return (View(matrices_view(dims)),)
        outer, width, inner = math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :])
        if inner == 1:
            rows, matrices = View((1, outer, 1, width), (outer * width, width, 1, 1)), View(matrices_view(dims))
            return (rows, matrices) if matrices.shape[0] > 1 and matrices.shape[1] >= self.lanes.count // 2 else (rows,)
        whole = View((1, outer, width, inner))
        lanes = max(size for size in range(1, self.lanes.count + 1) if inner % size == 0)
        if lanes == 1 or lanes < min(outer, self.lanes.count):
            return (whole,)
        spread = View((outer, lanes, width, inner // lanes), (width * inner, inner // lanes, inner, 1))
        return (whole, spread) if outer >= FEW_LANES and inner // lanes < SHORT_RUN // 4 else (spread, whole)

    def kernels(self, node: Node) -> Sequence[Candidate]:
        return in_spaces(self, [self._space(node, view) for view in self._views(node)])

    def _is_along_h(self, node: Node) -> bool:
        """True when the axis is along h, with the dimensions after it along w."""
        dims = node.operand_types[0].dims
        return math.prod(dims[node.op.axis % len(dims) + 1 :]) > 1

    def _is_matrix(self, node: Node, shape: Shape4) -> bool:
        """True when the axis is along h of a single-column plane, which is equivalent to a single-row plane."""
        return not self._is_along_h(node) and shape[3] == 1

    def space(self, node: Node) -> Space:
        return self._space(node, self._view(node))

    def _space(self, node: Node, view: View) -> Space:
        operands = (view, *(None for _ in node.operand_types[1:]))
        whole = "h" if self._is_along_h(node) or self._is_matrix(node, view.shape) else "w"
        return Space(self.lanes.parallel_axes(view.shape, whole=whole), operands, (view,))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (COEFFICIENTS,)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return COEFFICIENTS_SHAPE

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        return coefficients()

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        shape = self._rows(node, tile_shape(tile))
        column = self.lmem.tensor_bytes("aligned", self._column(node, shape), 4)
        return (*exponential_scratch(shape, self.lmem), Scratch("column", column))

    def _rows(self, node: Node, shape: Shape4) -> Shape4:
        """The extents with the axis along w, or along h with the dimensions after it along w."""
        n, c, h, w = shape
        return (n, c, w, h) if self._is_matrix(node, shape) else shape

    def _column(self, node: Node, shape: Shape4) -> Shape4:
        """The extents with the axis reduced to 1."""
        n, c, h, w = shape
        return (n, c, 1, w) if self._is_along_h(node) else (n, c, h, 1)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape = self._rows(node, placed.result.shape)
        left = self._column(node, shape)
        column = Operand(placed.scratch["column"].address, DType.F32)
        exponential = Exponential.at(asm, shape, placed.scratch, placed.constants)
        steps = column.strides(left, self.target)
        strides = [0 if here != there else step for here, there, step in zip(shape, left, steps, strict=True)]
        repeated = Operand(column.address, DType.F32, (strides[0], strides[1], strides[2], strides[3]))

        x, spare = operand(placed.operand(0)), (exponential.s, exponential.t)
        self._reduce(PoolOp.MAX, *self._folded(ArithmeticOp.MAX, x, spare, shape, left, asm), column, left, asm)
        arithmetic(asm, ArithmeticOp.SUB, shape, exponential.s, x, repeated)
        if node.op.beta != 1.0:
            arithmetic(asm, ArithmeticOp.MUL, shape, exponential.s, exponential.s, Scalar.of(node.op.beta, DType.F32))
        s = operand(placed.result)
        exponential.emit(s)
        self._reduce(PoolOp.AVERAGE, *self._folded(ArithmeticOp.ADD, s, spare, shape, left, asm), column, left, asm)
        if math.prod(shape[2:]) // math.prod(left[2:]) <= self._longest_kept:
            arithmetic(asm, ArithmeticOp.DIV, shape, s, s, repeated, iterations=DIVISION_STEPS)
            return
        one = Scalar.of(1.0, DType.F32)
        arithmetic(asm, ArithmeticOp.DIV, left, column, one, column, iterations=DIVISION_STEPS)
        arithmetic(asm, ArithmeticOp.MUL, shape, s, s, repeated)

    def _reduce(
        self, operation: PoolOp, source: Operand, shape: Shape4, column: Operand, left: Shape4, asm: Bm1684xAssembler
    ) -> None:
        h, w = shape[2:]
        asm.record(
            PoolOrDepthwise(
                operation=operation,
                result=column,
                shape=left,
                input=source,
                input_size=(h, w),
                kernel=(h // left[2], w // left[3]),
                weight=Scalar.of(1.0, DType.F32) if operation is PoolOp.AVERAGE else None,
                pad_value=lowest(DType.F32) if operation is PoolOp.MAX else None,
            )
        )

    @property
    def _longest_kept(self) -> int:
        """Numbers of two rows of execution units. Longer rows of a multiple are folded, since both halves fill units;
        only longer rows are worth a command that inverts their sum: a division takes 16 times as long as a product.
        """
        return 2 * self.target.eu_bytes // DType.F32.bytes

    def _folded(
        self,
        operation: ArithmeticOp,
        source: Operand,
        spare: tuple[Operand, Operand],
        shape: Shape4,
        left: Shape4,
        asm: Bm1684xAssembler,
    ) -> tuple[Operand, Shape4]:
        """Record the reduction of halves of rows by each other; returns the shorter rows, in one of `spare`. An
        arithmetic command takes as many numbers per cycle as a lane has execution units, pooling takes one.
        """
        n, c, h, w = shape
        step = 0
        while left[3] == 1 and w > self._longest_kept and w % self._longest_kept == 0:
            strides = source.strides((n, c, h, w), self.target)
            w //= 2
            halves = (Operand(source.address + part * w * source.dtype.bytes, source.dtype, strides) for part in (0, 1))
            target = Operand(spare[step % 2].address, source.dtype)
            arithmetic(asm, operation, (n, c, h, w), target, *halves)
            source, step = target, step + 1
        return source, (n, c, h, w)
