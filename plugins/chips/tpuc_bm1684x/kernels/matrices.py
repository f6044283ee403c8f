"""Products of two computed tensors by the matrix command: every row of all three matrices lies in a lane of its own."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Axis, Box, LocalTensor, Node, Phase, PlacedTile, Scratch, Space, Tile, TileKernel, View
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops import tpu
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import Conv, DType, Layout, MatMulOp, Operand
from tpuc_bm1684x.isa import MatMul as MatMulCommand
from tpuc_bm1684x.isa.geometry import EU_BYTES, LANES, round_up
from tpuc_bm1684x.kernels.activation import emit_relu
from tpuc_bm1684x.kernels.binary import emit_rescale
from tpuc_bm1684x.kernels.common import matrices_view
from tpuc_bm1684x.kernels.row_products import batch_of, turn
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_bm1684x.operands import MAX_EXTENT, operand


class MatricesKernel(TileKernel[tpu.MatMul, Bm1684xAssembler]):
    """Matrix by matrix; of 8-bit integers and 16-bit floats."""

    def suits(self, node: Node) -> bool:
        """Does the matrix command take these types and extents?"""
        left, right = (type_.storage for type_ in node.operand_types[:2])
        extents = (*matrices_view(node.operand_types[0].dims), *matrices_view(node.operand_types[1].dims))
        alike = left == right if left.is_float else left.bits == right.bits == 8
        return alike and left.bits <= 16 and max(extents) <= MAX_EXTENT

    def space(self, node: Node) -> Space:
        views = [View(matrices_view(type_.dims)) for type_ in node.operand_types[:2]]
        result = matrices_view(node.result_type.dims)
        axes = (
            Axis("n", result[0]),
            Axis("h", result[2], granularity=LANES),
            Axis("c", result[1], granularity=LANES),
        )
        return Space(axes, (*views, *(None for _ in node.operand_types[2:])), (View(result),))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        depth = node.operand_types[0].dims[-1]
        (n0, _), (c0, _), (h0, _) = (tile.range(name) for name in "nch")
        n, c, h, _ = tile_shape(tile)
        right = Box((n0, 0, h0, 0), (n, depth, h, 1))
        if node.op.right_transpose:
            right = Box((n0, h0, 0, 0), (n, h, depth, 1))
        return [Box((n0, c0, 0, 0), (n, c, depth, 1)), right, *(None for _ in node.operand_types[2:])]

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        if not node.op.multipliers:
            return ()
        return (Scratch("sum", Bm1684xLmem().tensor_bytes("aligned", tile_shape(tile), 4)),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        left, right, result = placed.operand(0), placed.operand(1), placed.result
        target = Operand(placed.scratch["sum"].address, DType.INT32) if node.op.multipliers else operand(result)
        for batch in range(result.shape[0]):
            asm.record(
                MatMulCommand(
                    operation=MatMulOp.NT if node.op.right_transpose else MatMulOp.NN,
                    rows=result.shape[1],
                    columns=result.shape[2],
                    depth=left.shape[2],
                    result=batch_of(target, result.shape, batch),
                    left=batch_of(operand(left), left.shape, batch),
                    right=batch_of(operand(right), right.shape, batch),
                )
            )
        if node.op.multipliers:
            (multiplier,), (shift,) = node.op.multipliers, node.op.rshifts
            point = node.result_type.uniform.zero_point
            emit_rescale(target, result, point, multiplier, shift, Rounding(node.op.round_mode), asm)
        emit_relu(node, result, asm)


class TurnedMatricesKernel(MatricesKernel):
    """Matrix by matrix in f32, which the matrix command does not take: rows of the left one are the pixels of an image,
    columns of the right one its filters.
    """

    def suits(self, node: Node) -> bool:
        extents = (*matrices_view(node.operand_types[0].dims), *matrices_view(node.operand_types[1].dims))
        return all(type_.storage.name == "f32" for type_ in node.operand_types[:2]) and max(extents) <= MAX_EXTENT

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        n, rows, columns, _ = tile_shape(tile)
        depth = node.operand_types[0].dims[-1]
        shapes = {"turned_left": (n, depth, 1, rows), "turned_result": (n, columns, 1, rows)}
        if not node.op.right_transpose:
            shapes["turned_right"] = (n, columns, 1, depth)
        lmem = Bm1684xLmem()
        return [Scratch(name, lmem.tensor_bytes("aligned", shape, 4)) for name, shape in shapes.items()]

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        left, right, result = placed.operand(0), placed.operand(1), placed.result
        n, rows, columns, _ = result.shape
        depth = left.shape[2]
        inner = {
            name: LocalTensor(placed.scratch[name].address, shape, "aligned", result.element)
            for name, shape in (
                ("turned_left", (n, depth, 1, rows)),
                ("turned_right", (n, columns, 1, depth)),
                ("turned_result", (n, columns, 1, rows)),
            )
            if name in placed.scratch
        }
        turn(left, inner["turned_left"], asm)
        filters = right
        if "turned_right" in inner:
            filters = inner["turned_right"]
            turn(right, filters, asm)
        for batch in range(n):
            self._convolve(inner["turned_left"], filters, inner["turned_result"], batch, asm)
        turn(inner["turned_result"], result, asm)
        emit_relu(node, result, asm)

    def _convolve(
        self, left: LocalTensor, right: LocalTensor, result: LocalTensor, batch: int, asm: Bm1684xAssembler
    ) -> None:
        """One matrix, 64 columns at a time: columns of the right one are padded to whole vectors, filters are not."""
        _, columns, _, rows = result.shape
        depth = left.shape[1]
        slots = -(-columns // LANES)
        sizes = [round_up(extent * 4, EU_BYTES) for extent in (depth, rows)]
        for slot in range(slots):
            place = batch * slots + slot
            asm.record(
                Conv(
                    result=Operand(result.address + place * sizes[1], DType.F32),
                    result_shape=(1, min(LANES, columns - slot * LANES), 1, rows),
                    input=batch_of(operand(left), left.shape, batch),
                    input_shape=(depth, 1, rows),
                    weight=Operand(right.address + place * sizes[0], DType.F32, Layout.COMPACT),
                )
            )
