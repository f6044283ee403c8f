"""Matrix products of two tensors, with each matrix row in its own lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import (
    Axis,
    Box,
    KernelChoice,
    LocalTensor,
    Node,
    Phase,
    PlacedTile,
    Scratch,
    Shape4,
    Space,
    Tile,
    TileKernel,
    View,
)
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops import tpu
from tpuc_ops.quant.arithmetic import Rounding
from tpuc_ops.shapes import is_absent

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import Conv, DType, Layout, MatMulOp, Operand
from tpuc_bm1684x.isa import MatMul as MatMulCommand
from tpuc_bm1684x.isa.fused import one_record
from tpuc_bm1684x.isa.geometry import round_up
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.kernels.activation import emit_relu
from tpuc_bm1684x.kernels.binary import emit_rescale
from tpuc_bm1684x.kernels.common import OfChip, matrices_view, zero_point_refusal
from tpuc_bm1684x.kernels.row_products import ConstantMatMulKernel, batch_of, turn
from tpuc_bm1684x.operands import MAX_EXTENT, operand


class MatricesKernel(OfChip, TileKernel[tpu.MatMul, Bm1684xAssembler]):
    """Multiplies one matrix at a time, in 8-bit integers or 16-bit floats. A single matrix multiplies all of the other
    operand.
    """

    def refuse(self, node: Node[tpu.MatMul]) -> str | None:
        left, right, *others = node.operand_types
        if node.op.left_transpose or node.op.output_transpose:
            return "left_transpose and output_transpose are not supported"
        if any(not is_absent(type_) for type_ in others):
            return "a product of computed tensors takes no bias"
        counts = [matrices_view(type_.dims)[0] for type_ in (left, right)]
        if left.dims[:-2] != right.dims[:-2] and 1 not in counts:
            return "both operands must have the same number of matrices; repeat or reshape one of them"
        if len(node.op.multipliers) > 1:
            return "one multiplier for all columns"
        if max(*matrices_view(left.dims), *matrices_view(right.dims)) > MAX_EXTENT:
            return f"at most {MAX_EXTENT} matrices, rows and columns"
        first, second = left.storage, right.storage
        alike = first == second if first.is_float else first.bits == second.bits == 8
        if not alike:
            return f"operands of 8-bit integers or of one float type, these are {first.name} and {second.name}"
        return zero_point_refusal([left, right])

    def space(self, node: Node) -> Space:
        views = [View(matrices_view(type_.dims)) for type_ in node.operand_types[:2]]
        result = matrices_view(node.result_type.dims)
        axes = (
            Axis("n", result[0]),
            Axis("h", result[2], granularity=self.lanes.count),
            Axis("c", result[1], granularity=self.lanes.count),
        )
        return Space(axes, (*views, *(None for _ in node.operand_types[2:])), (View(result),))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        depth = node.operand_types[0].dims[-1]
        (n0, _), (c0, _), (h0, _) = (tile.range(name) for name in "nch")
        n, c, h, _ = tile_shape(tile)
        left, right = Box((n0, c0, 0, 0), (n, c, depth, 1)), Box((n0, 0, h0, 0), (n, depth, h, 1))
        if node.op.right_transpose:
            right = Box((n0, h0, 0, 0), (n, h, depth, 1))
        boxes = [
            box if view is None or view.shape[0] > 1 else Box((0, *box.start[1:]), (1, *box.shape[1:]))
            for box, view in zip((left, right), space.operands[:2], strict=True)
        ]
        return [*boxes, *(None for _ in node.operand_types[2:])]

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        if not node.op.multipliers or self.target.has_registers:
            return ()
        return (Scratch("sum", self.lmem.tensor_bytes("aligned", tile_shape(tile), 4)),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        left, right, result = placed.operand(0), placed.operand(1), placed.result
        target = Operand(placed.scratch["sum"].address, DType.INT32) if "sum" in placed.scratch else operand(result)
        fuses, rounding = bool(node.op.multipliers) and self.target.has_registers, Rounding(node.op.round_mode)
        if fuses:
            asm.record(one_record(node.op.multipliers[0], node.op.rshifts[0], node.result_type.uniform.zero_point))
        for batch in range(result.shape[0]):
            asm.record(
                MatMulCommand(
                    operation=MatMulOp.NT if node.op.right_transpose else MatMulOp.NN,
                    rows=result.shape[1],
                    columns=result.shape[2],
                    depth=left.shape[2],
                    result=batch_of(target, result.shape, batch, self.target),
                    left=_matrix(left, batch, self.target),
                    right=_matrix(right, batch, self.target),
                    requantizes=fuses,
                    rounding=rounding,
                )
            )
        if node.op.multipliers and not fuses:
            (multiplier,), (shift,) = node.op.multipliers, node.op.rshifts
            point = node.result_type.uniform.zero_point
            emit_rescale(target, result, point, multiplier, shift, rounding, asm)
        emit_relu(node, result, asm)


def _matrix(local: LocalTensor, batch: int, target: Target) -> Operand:
    """The matrix of a batch: the only one, or one of many."""
    return batch_of(operand(local), local.shape, batch if local.shape[0] > 1 else 0, target)


class TurnedMatricesKernel(MatricesKernel):
    """Multiplies one matrix at a time in f32, which the matrix command does not support: a convolution with the rows of
    the left matrix as pixels and the columns of the right matrix as filters.
    """

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        n, rows, columns, _ = tile_shape(tile)
        counts = [min(n, matrices_view(type_.dims)[0]) for type_ in node.operand_types[:2]]
        shapes = self._turned(node, (*counts, n), (rows, node.operand_types[0].dims[-1], columns))
        return [Scratch(name, self.lmem.tensor_bytes("aligned", shape, 4)) for name, shape in shapes.items()]

    def _turned(self, node: Node, counts: Sequence[int], extents: Sequence[int]) -> dict[str, Shape4]:
        """Scratch tensors: each operand and the result with rows and columns exchanged."""
        (left, right, results), (rows, depth, columns) = counts, extents
        shapes: dict[str, Shape4] = {
            "turned_left": (left, depth, 1, rows),
            "turned_result": (results, columns, 1, rows),
        }
        if not node.op.right_transpose:
            shapes["turned_right"] = (right, columns, 1, depth)
        return shapes

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        left, right, result = placed.operand(0), placed.operand(1), placed.result
        n, rows, columns, _ = result.shape
        counts = (left.shape[0], right.shape[0], n)
        inner = {
            name: LocalTensor(placed.scratch[name].address, shape, "aligned", result.element)
            for name, shape in self._turned(node, counts, (rows, left.shape[2], columns)).items()
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
        """Multiply one matrix with one command per group of lanes: the stored columns are padded to whole vectors,
        while a command expects the filters of a lane without gaps.
        """
        _, columns, _, rows = result.shape
        depth = left.shape[1]
        lanes = self.lanes.count
        slots = self.lanes.slots_of(columns)
        sizes = [round_up(extent * 4, self.target.eu_bytes) for extent in (depth, rows)]
        for slot in range(slots):
            place, filters = (count * slots + slot for count in (batch, batch if right.shape[0] > 1 else 0))
            asm.record(
                Conv(
                    result=Operand(result.address + place * sizes[1], DType.F32),
                    result_shape=(1, min(lanes, columns - slot * lanes), 1, rows),
                    input=_matrix(left, batch, self.target),
                    input_shape=(depth, 1, rows),
                    weight=Operand(right.address + filters * sizes[0], DType.F32, Layout.COMPACT),
                )
            )


class AnyMatMulKernel(KernelChoice[tpu.MatMul]):
    """Chooses a kernel: a two-dimensional right operand is constant, others are computed.

    Rows of computed tensors are loaded in their DDR order. Distributing them across lanes, as a plain convolution
    needs, would transfer each element separately.
    """

    def __init__(self, target: Target = BM1684X) -> None:
        self._constant = ConstantMatMulKernel(target)
        self._rows, self._turned = MatricesKernel(target), TurnedMatricesKernel(target)

    def kernel(self, node: Node) -> TileKernel[Any, Bm1684xAssembler]:
        left, right, *_ = node.operand_types
        if len(right.dims) == 2:
            return self._constant
        return self._turned if left.storage.name == "f32" else self._rows
