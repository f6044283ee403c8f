"""Reductions of contiguous dimensions along h within each lane, by pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tpuc.api import Box, Candidate, Node, Phase, PlacedTile, Scratch, Shape4, Space, Tile, TileKernel, View
from tpuc_chip_parts.lanes import Lanes
from tpuc_ops import tpu
from tpuc_ops.integers import is_integer, zero_point

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, PoolOp, PoolOrDepthwise, Scalar
from tpuc_bm1684x.kernels.binary import emit_requantize
from tpuc_bm1684x.kernels.common import (
    FEW_LANES,
    SHORT_RUN,
    OfChip,
    apart_refusal,
    in_spaces,
    matrices_view,
    reduced_axes,
    reduced_extents,
    row_blocks,
)
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.kernels.exponential import emit_square_root
from tpuc_bm1684x.kernels.pool import lowest
from tpuc_bm1684x.kernels.widening import Widened, widening_scratch
from tpuc_bm1684x.operands import MAX_EXTENT, dtype_of, operand

_PREPARED = ("ReduceMin", "ReduceL1", "ReduceL2")
_MAXIMA = ("ReduceMax", "ReduceMin")
_LONG = 32
"""Elements from which two steps are faster than one."""
_AT_ONCE = 16
"""Elements of 32 bits in a vector."""


class ReduceKernel(OfChip, TileKernel[tpu.Reduce, Bm1684xAssembler]):
    """Minimum is the maximum of negated values; L1 and L2 are sums of magnitudes and squares. Floats are accumulated in
    f32.
    """

    def refuse(self, node: Node) -> str | None:
        if node.op.mode == "ReduceProd":
            return "mode ReduceProd has no kernel"
        refused = apart_refusal(reduced_axes(node))
        if refused is not None:
            return refused
        _, _, width = reduced_extents(node)
        return f"at most {MAX_EXTENT} values along the axes, there are {width}" if width > MAX_EXTENT else None

    def kernels(self, node: Node) -> Sequence[Candidate]:
        return in_spaces(self, (*self._spaces(node), *self._image(node), *self._blocks(node)))

    def _blocks(self, node: Node) -> Sequence[Space]:
        """The space of short rows in blocks."""
        dims = node.operand_types[0].dims
        view = row_blocks(dims, self.target) if reduced_axes(node) == [len(dims) - 1] else None
        return () if view is None else (_space(self.lanes, view, View((*view.shape[:3], 1))),)

    def _image(self, node: Node) -> Sequence[Space]:
        """The space of rows of images whose channels stay in their lanes."""
        dims = node.operand_types[0].dims
        if reduced_axes(node) != [3] or len(dims) != 4 or min(dims[2:]) == 1:
            return ()
        n, c, h, w = dims
        return (_space(self.lanes, View((n, c, h, w)), View((n, c, h, 1))),)

    def space(self, node: Node) -> Space:
        return self._spaces(node)[0]

    def _spaces(self, node: Node) -> Sequence[Space]:
        """Candidate spaces: the dimensions before the axes, or those after them, are distributed over the lanes."""
        outer, inner, width = reduced_extents(node)
        dims, axes, lanes = node.operand_types[0].dims, reduced_axes(node), self.lanes
        if axes == [len(dims) - 1] and len(dims) > 1 and dims[-2] >= min(outer, lanes.count):
            n, rows, *_ = matrices_view(dims)
            return (_space(lanes, View((n, rows, width, 1)), View((n, rows, 1, 1))),)
        whole = _space(lanes, View((1, outer, width, inner)), View((1, outer, 1, inner)))
        if min(inner, lanes.count) <= outer:
            return (whole,)
        rows, row = _rows_and_row(inner, lanes.count)  # keeps more lanes busy
        source = View((outer, rows, width, row), (width * inner, row, inner, 1))
        spread = _space(lanes, source, View((outer, rows, 1, row)))
        is_short = row * node.operand_types[0].storage.bits // 8 < SHORT_RUN
        return (whole, spread) if outer >= FEW_LANES and is_short else (spread, whole)

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        (n0, n1), (c0, c1), (h0, h1), (w0, w1) = (tile.range(name) for name in "nchw")
        width = reduced_extents(node)[2]
        if _in_rows(space):
            return [Box((n0, c0, h0, 0), (n1 - n0, c1 - c0, h1 - h0, width))]
        return [Box((n0, c0, 0, w0), (n1 - n0, c1 - c0, width, w1 - w0))]

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        lmem = self.lmem
        n, c, h, w = (tile.size(name) for name in "nchw")
        source, result = (n, c, h * reduced_extents(node)[2], w), (n, c, h, w)
        of_vectors = node.op.mode in _MAXIMA or not is_integer(node.result_type)
        last = _last_row(reduced_extents(node)[2]) if w == h == 1 and of_vectors else 0
        partial = (Scratch("last_row", lmem.tensor_bytes("aligned", (n, c, 1, last), 4)),) if last else ()
        return (*partial, *self._prepared_scratch(node, source, result))

    def _prepared_scratch(self, node: Node, source: Shape4, result: Shape4) -> Sequence[Scratch]:
        lmem = self.lmem
        if is_integer(node.result_type) and node.op.mode != "ReduceMax":
            return (Scratch("sum", lmem.tensor_bytes("aligned", result, 4)),)
        if node.op.mode not in _MAXIMA and node.operand_types[0].storage.name in ("f16", "bf16"):
            return widening_scratch(node, source, result, lmem)
        if node.op.mode in _PREPARED:
            return (Scratch("prepared", lmem.tensor_bytes("aligned", source, 4)),)
        return ()

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        source, result = operand(placed.operand(0)), operand(placed.result)
        if is_integer(node.result_type) and node.op.mode != "ReduceMax":
            total = Operand(placed.scratch["sum"].address, DType.INT32)
            self._pool(PoolOp.AVERAGE, source, total, placed, Scalar.of(1, DType.UINT8), asm)
            zeros = reduced_extents(node)[2] * zero_point(node.operand_types[0])
            if zeros:
                offset = Scalar.of(-zeros, DType.INT32)
                arithmetic(asm, ArithmeticOp.ADD, placed.result.shape, total, total, offset)
            emit_requantize(node, total, placed.result, asm)
            return
        wide = Widened.none(placed) if node.op.mode in _MAXIMA else Widened.of(placed, asm)
        source = self._prepare(node, wide.input, placed, asm) if node.op.mode in _PREPARED else wide.input
        if node.op.mode in _MAXIMA:
            self._pool(PoolOp.MAX, source, result, placed, None, asm)
        else:
            mean = node.op.mode == "ReduceMean"
            weight = Scalar.of(1 / reduced_extents(node)[2] if mean else 1.0, DType.F32)
            self._pool(PoolOp.AVERAGE, source, wide.result, placed, weight, asm)
        self._finish(node, wide.result, source, placed, asm)
        wide.finish(placed, asm)

    def _prepare(self, node: Node, source: Operand, placed: PlacedTile, asm: Bm1684xAssembler) -> Operand:
        shape, prepared = placed.operand(0).shape, source
        if "prepared" in placed.scratch:
            prepared = Operand(placed.scratch["prepared"].address, source.dtype)
        match node.op.mode:
            case "ReduceMin":
                arithmetic(asm, ArithmeticOp.MUL, shape, prepared, source, Scalar.of(-1.0, source.dtype))
            case "ReduceL1":
                arithmetic(asm, ArithmeticOp.ABS, shape, prepared, source)
            case _:
                arithmetic(asm, ArithmeticOp.MUL, shape, prepared, source, source)
        return prepared

    def _pool(
        self,
        operation: PoolOp,
        source: Operand,
        target: Operand,
        placed: PlacedTile,
        weight: Scalar | None,
        asm: Bm1684xAssembler,
    ) -> None:
        x = placed.operand(0)
        along, width = x.shape[2:]
        size, kernel = ((along, width), (along, 1)) if width > 1 else ((1, along), (1, along))  # the same in memory
        if placed.result.shape[2:] == (along, 1) and width > 1:
            kernel = (1, width)
        pool = PoolOrDepthwise(
            operation=operation,
            result=target,
            shape=placed.result.shape,
            input=source,
            input_size=size,
            kernel=kernel,
            weight=weight,
            pad_value=lowest(dtype_of(x.element)) if operation is PoolOp.MAX else None,
        )
        if "last_row" in placed.scratch:  # elements are added to those a row further on, and then the last row's
            row = Operand(placed.scratch["last_row"].address, source.dtype)
            last = _last_row(along * width)
            n, c, _, _ = placed.result.shape
            rows = (along * width // last, last)
            once = None if weight is None else Scalar.of(1.0, DType.F32)
            asm.record(
                replace(pool, result=row, shape=(n, c, 1, last), input_size=rows, kernel=(rows[0], 1), weight=once)
            )
            pool = replace(pool, input=row, input_size=(1, last), kernel=(1, last))
        asm.record(pool)

    def _finish(
        self, node: Node, result: Operand, prepared: Operand, placed: PlacedTile, asm: Bm1684xAssembler
    ) -> None:
        shape = placed.result.shape
        if node.op.mode == "ReduceMin":
            arithmetic(asm, ArithmeticOp.MUL, shape, result, result, Scalar.of(-1.0, result.dtype))
        if node.op.mode == "ReduceL2":
            emit_square_root(asm, shape, prepared, result)
            arithmetic(asm, ArithmeticOp.COPY, shape, result, prepared)


def _last_row(extent: int) -> int:
    """The row length in which that many elements are reduced fastest, 0 where one after the other is about as fast."""
    if extent < _LONG:
        return 0
    rows = [row for row in range(2, extent // 2 + 1) if extent % row == 0]
    best = min(rows, key=lambda row: extent // row * -(-row // _AT_ONCE) + row, default=0)
    return best if best and 2 * (extent // best * -(-best // _AT_ONCE) + best) <= extent else 0


def _in_rows(space: Space) -> bool:
    """True if rows are reduced, not columns."""
    (source,), (result,) = space.operands, space.results
    return source is not None and source.shape[3] > result.shape[3]


def _space(lanes: Lanes, source: View, result: View) -> Space:
    return Space(lanes.parallel_axes(result.shape), (source,), (result,))


def _rows_and_row(extent: int, lanes: int) -> tuple[int, int]:
    """Split the extent into two factors, the first of which fills the lanes well."""

    def rounds(factors: tuple[int, int]) -> tuple[int, int]:
        """Sort key: lanes occupied or idle per row element, then the number of rows."""
        rows, row = factors
        return -(-rows // lanes) * lanes * row, rows

    sizes = [size for size in range(lanes // 2 + 1, min(extent, 4 * lanes) + 1) if extent % size == 0]
    return min(((size, extent // size) for size in sizes), key=rounds, default=(extent, 1))
