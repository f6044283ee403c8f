"""Products with a constant matrix that lies in DDR row by row, so that products of one row and of many read the same
bytes. Matrices of small integers are expanded to floats in local memory.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tpuc.api import (
    ABSENT,
    Axis,
    Box,
    KernelChoice,
    Layouts,
    LocalBlock,
    LocalTensor,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    Scratch,
    Space,
    Tile,
    TileKernel,
    View,
)
from tpuc_chip_parts.lanes import Lanes
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, LaneTransfer, MatMul, MatMulOp, Operand, Scalar, TransferOp
from tpuc_bm1684x.isa.geometry import round_up
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.kernels.common import OfChip, lanes_of
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.kernels.product import Product, ProductKernel
from tpuc_bm1684x.operands import MAX_EXTENT, dtype_of, operand

WEIGHT, SCALE, ZP, BIAS = 1, 2, 3, 4
"""Positions of the constant operands."""
MOST_TABLE_BYTES = 24576
"""Scales and zero points of a whole matrix, per lane, that stay in local memory; others are loaded by tiles."""

FEW_ROWS = 8
"""Rows that are taken one after another."""

SLOTS_TOGETHER = 8
"""Rows per lane for which a part of a matrix is expanded once. With 1, a prompt block of 512 tokens and 4 bits at
Qwen2.5-0.5B's shape takes 14 % longer, as expanding a part takes a fifth of its products with 64 rows.
"""


@dataclass(frozen=True)
class StoredMatrix:
    """The matrix of a node: `columns` rows of `depth` numbers of `bits`, in groups of `group` with one scale each."""

    columns: int
    depth: int
    bits: int
    group: int
    stored_depth: int
    """Numbers of a stored row."""
    dtype: DType
    target: Target

    @staticmethod
    def of(node: Node[tpu.A16MatMul], target: Target) -> StoredMatrix:
        left, weight = node.operand_types[:2]
        op, depth = node.op, left.dims[-1]
        group, stored_depth = op.group(depth), op.stored_depth(depth)
        dtype = dtype_of(left.storage)
        return StoredMatrix(weight.dims[0], depth, op.weight_bits, group, stored_depth, dtype, target)

    @property
    def lanes(self) -> Lanes:
        """The lanes of the chip."""
        return lanes_of(self.target)

    @property
    def step(self) -> int:
        """Numbers of a row in one step of a product."""
        return self.target.packing[2]

    @property
    def expands(self) -> bool:
        """The matrix consists of integers."""
        return self.bits < 16

    @property
    def groups(self) -> int:
        """Scales of a row."""
        return self.stored_depth // self.group

    @property
    def view(self) -> View:
        """The matrix in DDR: a row per lane."""
        return View((1, self.columns, 1, self.places(self.stored_depth)))

    def places(self, count: int) -> int:
        """Stored elements of `count` numbers."""
        return count * self.bits // 8 if self.expands else count

    def wide(self, tile: Tile) -> int:
        """Numbers of a row that a tile loads: whole groups, or what the tile has of the only one."""
        return round_up(tile.size("k"), self.depth_unit) if self.expands else tile.size("k")

    @property
    def depth_unit(self) -> int:
        """Numbers of a row that tiles do not divide."""
        return math.lcm(self.group, self.step) if self.groups > 1 else self.step

    def box(self, tile: Tile, columns: str) -> Box:
        """The part of the matrix that a tile reads."""
        (k0, _), (c0, c1) = tile.range("k"), tile.range(columns)
        return Box((0, c0, 0, self.places(k0)), (1, c1 - c0, 1, self.places(self.wide(tile))))

    def depth_axis(self) -> Axis:
        """The reduction, in whole groups."""
        return Axis(
            "k",
            self.depth,
            reduction=True,
            granularity=self.depth_unit,
            limit=MAX_EXTENT // self.step * self.step,
        )

    # -- scales and zero points

    def constants(self, columns: str) -> list[PackedConstant]:
        """Scales and zero points: of the whole matrix if they are few, so that they do not depend on tiles."""
        if not self.expands:
            return []
        axes = () if self.table_bytes <= MOST_TABLE_BYTES else (columns,)
        return [PackedConstant("scale", axes), PackedConstant("zp", axes)]

    @property
    def table_bytes(self) -> int:
        return 3 * self.lanes.slots_of(self.columns) * self.groups

    def _table_columns(self, tile: Tile, columns: str) -> tuple[int, int]:
        return (0, self.columns) if self.table_bytes <= MOST_TABLE_BYTES else tile.range(columns)

    def constant_shape(self, name: str, tile: Tile, columns: str) -> tuple[int, int]:
        first, end = self._table_columns(tile, columns)
        slots = self.lanes.slots_of(end - first)
        return min(end - first, self.lanes.count), slots * self.groups * (2 if name == "scale" else 1)

    def pack(self, name: str, tile: Tile, arrays: Sequence[Array | None], columns: str) -> Array:
        first, end = self._table_columns(tile, columns)
        array = arrays[SCALE if name == "scale" else ZP]
        assert array is not None
        return self.lanes.by_lane(np.ascontiguousarray(array.reshape(self.columns, self.groups)[first:end]))

    # -- expansion

    def scratch(self, tile: Tile, columns: str) -> list[Scratch]:
        """Two buffers, from which and to which the steps of the expansion go in turn."""
        if not self.expands:
            return []
        size = self.lanes.slots_of(tile.size(columns)) * round_up(2 * self.wide(tile), self.target.eu_bytes)
        return [Scratch("filter", size), Scratch("real", size)]

    def expand(self, placed: PlacedTile, columns: str, unit: int, asm: Bm1684xAssembler) -> LocalBlock:
        """Record the expansion of a tile's part; returns the matrix of floats, a row of whole units per lane."""
        tile, stored = placed.tile, placed.operand(WEIGHT)
        if not self.expands:
            return LocalBlock(stored.address, 0, self.lanes.count)
        count, wide, depth = tile.size(columns), self.wide(tile), tile.size("k")
        group = min(self.group, wide)
        groups = wide // group
        shape = (1, count, groups, group)
        source = Operand(stored.address, DType.UINT8)
        if self.bits == 4:
            source = self._split(placed, count, wide, asm)
        filters = placed.scratch["filter"]
        signed = Operand(filters.address, DType.INT8 if self.bits == 4 else DType.INT16)
        real = Operand(placed.scratch["real"].address, self.dtype)
        at = self._table_offset(tile, columns)
        points = Operand(placed.constants["zp"].address + at, DType.UINT8, (0, self.groups, 1, 0))
        scales = Operand(placed.constants["scale"].address + 2 * at, self.dtype, (0, self.groups, 1, 0))
        arithmetic(asm, ArithmeticOp.SUB_SATURATE, shape, signed, source, points)
        arithmetic(asm, ArithmeticOp.CAST, shape, real, signed)
        self._scale(shape, round_up(depth, unit), Operand(filters.address, self.dtype), real, scales, asm)
        return filters

    def _split(self, placed: PlacedTile, count: int, wide: int, asm: Bm1684xAssembler) -> Operand:
        """Record the separation of two integers per byte."""
        stored, target = placed.operand(WEIGHT), placed.scratch["real"].address
        shape, row = (1, count, 1, wide // 2), round_up(wide, self.target.eu_bytes)
        packed = Operand(stored.address, DType.UINT8)
        even = Operand(target, DType.UINT8, (0, row, wide, 2))
        odd = replace(even, address=target + 1)
        arithmetic(asm, ArithmeticOp.AND, shape, even, packed, Scalar.of(15, DType.UINT8))
        down = Scalar.of(-4, DType.INT8)
        arithmetic(asm, ArithmeticOp.LOGICAL_SHIFT, shape, odd, packed, down, rounding=Rounding.DOWN)
        return Operand(target, DType.UINT8, (0, row, min(self.group, wide), 1))

    def _table_offset(self, tile: Tile, columns: str) -> int:
        first = 0 if self.table_bytes > MOST_TABLE_BYTES else tile.range(columns)[0] // self.lanes.count * self.groups
        return first + (tile.range("k")[0] // self.group if self.groups > 1 else 0)

    def _scale(
        self,
        shape: tuple[int, int, int, int],
        kept: int,
        target: Operand,
        real: Operand,
        scales: Operand,
        asm: Bm1684xAssembler,
    ) -> None:
        """Record the products with scales; the last group may be kept in part."""
        _, count, groups, group = shape
        row = round_up(groups * group * 2, self.target.eu_bytes) // 2
        whole = kept // group
        for first, number, size in ((0, whole, group), (whole, 1, kept - whole * group)):
            if not number or not size:
                continue
            at = first * group * 2
            arithmetic(
                asm,
                ArithmeticOp.MUL,
                (1, count, number, size),
                Operand(target.address + at, self.dtype, (0, kept, group, 1)),
                Operand(real.address + at, self.dtype, (0, row, group, 1)),
                replace(scales, address=scales.address + 2 * first),
            )


class VectorKernel(ProductKernel):
    """One row, or few: columns of the result across lanes, by a convolution of one pixel per row."""

    def product(self, node: Node[tpu.A16MatMul]) -> Product:
        depth, width = node.operand_types[0].dims[-1], node.result_type.dims[-1]
        rows = node.operand_types[0].size // depth
        has_bias = node.operand_types[BIAS] is not ABSENT
        return Product(View((rows, depth, 1, 1)), View((rows, width, 1, 1)), has_bias=has_bias)

    def tiling_key(self, node: Node) -> Hashable:
        return (super().tiling_key(node), StoredMatrix.of(node, self.target))

    def space(self, node: Node) -> Space:
        space, matrix = super().space(node), StoredMatrix.of(node, self.target)
        operands = [space.operands[0], matrix.view, *(None,) * (len(node.operand_types) - 2)]
        axes = (*space.axes[:-1], matrix.depth_axis())
        return replace(space, operands=tuple(operands), axes=axes)

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        boxes = list(super().reads(node, space, tile))
        boxes[WEIGHT] = StoredMatrix.of(node, self.target).box(tile, "c")
        return boxes

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        others = [constant for constant in super().constants(node) if constant.name != "filter"]
        return [*others, *StoredMatrix.of(node, self.target).constants("c")]

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        if name == "bias":
            return super().constant_shape(node, name, tile)
        return StoredMatrix.of(node, self.target).constant_shape(name, tile, "c")

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        if name == "bias":
            bias = arrays[BIAS]
            assert bias is not None
            return self.lanes.by_lane(bias.astype(np.float32).reshape(-1, 1)[slice(*tile.range("c"))])
        return StoredMatrix.of(node, self.target).pack(name, tile, arrays, "c")

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        return [*super().scratch(node, tile), *StoredMatrix.of(node, self.target).scratch(tile, "c")]

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        filters = StoredMatrix.of(node, self.target).expand(placed, "c", self.target.packing[2], asm)
        super().emit(node, replace(placed, constants={**placed.constants, "filter": filters}), phase, asm)

    def activate(self, node: Node, result: LocalTensor, asm: Bm1684xAssembler) -> None:
        """The op has no relu."""

    def filter_type(self, node: Node) -> DType:
        return dtype_of(node.operand_types[0].storage)


class RowsKernel(OfChip, TileKernel[tpu.A16MatMul, Bm1684xAssembler]):
    """Many rows: each in its own lane, by the matrix command with rows of the matrix across lanes too."""

    def tiling_key(self, node: Node) -> Hashable:
        return (StoredMatrix.of(node, self.target), node.operand_types[BIAS] is ABSENT)

    def space(self, node: Node) -> Space:
        matrix, rows = StoredMatrix.of(node, self.target), node.operand_types[0].size // node.operand_types[0].dims[-1]
        bias = None if node.operand_types[BIAS] is ABSENT else View((1, 1, matrix.columns, 1))
        together = self.lanes.count * (SLOTS_TOGETHER if matrix.expands else 1)
        axes = (
            Axis("h", matrix.columns, granularity=self.lanes.count),
            Axis("c", rows, granularity=together, limit=MAX_EXTENT // together * together),
            matrix.depth_axis(),
        )
        x = View((1, rows, matrix.depth, 1))
        return Space(axes, (x, matrix.view, None, None, bias), (View((1, rows, matrix.columns, 1)),))

    def layouts(self, node: Node) -> Layouts:
        """Results may be strided: some columns of rows that share lanes are, in the whole, and casts write them."""
        return Layouts(("aligned",) * len(node.operand_types), ("aligned",), strided_results=frozenset({0}))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        (k0, k1), (h0, h1), (c0, c1) = (tile.range(name) for name in "khc")
        bias = None if space.operands[BIAS] is None else Box((0, 0, h0, 0), (1, 1, h1 - h0, 1))
        x = Box((0, c0, k0, 0), (1, c1 - c0, k1 - k0, 1))
        return [x, StoredMatrix.of(node, self.target).box(tile, "h"), None, None, bias]

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return StoredMatrix.of(node, self.target).constants("h")

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return StoredMatrix.of(node, self.target).constant_shape(name, tile, "h")

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        return StoredMatrix.of(node, self.target).pack(name, tile, arrays, "h")

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        buffers = StoredMatrix.of(node, self.target).scratch(tile, "h")
        if self._is_wide(node, tile):
            shape = (1, tile.size("c"), tile.size("h"), 1)
            buffers.append(Scratch("sum", self.lmem.tensor_bytes("aligned", shape, 4)))
        if node.operand_types[BIAS] is not ABSENT:
            buffers.append(Scratch("bias_rows", round_up(tile.size("h") * 4, self.target.eu_bytes)))
        return buffers

    def _is_wide(self, node: Node, tile: Tile) -> bool:
        """True where sums have to be f32 at first: partial ones, those that a bias is added to, and those that may have
        a place between others.
        """
        depth, columns = node.operand_types[0].dims[-1], node.result_type.dims[-1]
        is_between = tile.size("h") < columns and tile.size("c") > self.lanes.count
        return tile.size("k") < depth or node.operand_types[BIAS] is not ABSENT or is_between

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        x, result = placed.operand(0), placed.result
        filters = StoredMatrix.of(node, self.target).expand(placed, "h", self.target.vector(2), asm)
        total = Operand(placed.scratch["sum"].address, DType.F32) if "sum" in placed.scratch else operand(result)
        left = operand(x)
        _, rows, columns, _ = result.shape
        asm.record(
            MatMul(
                operation=MatMulOp.NT,
                rows=rows,
                columns=columns,
                depth=x.shape[2],
                result=total,
                left=left,
                right=Operand(filters.address, left.dtype),
                accumulate=not phase.starts,
            )
        )
        if not phase.ends or "sum" not in placed.scratch:
            return
        if "bias_rows" in placed.scratch:
            self._add_bias(placed, total, asm)
        arithmetic(asm, ArithmeticOp.CAST, result.shape, operand(result), total)

    def _add_bias(self, placed: PlacedTile, total: Operand, asm: Bm1684xAssembler) -> None:
        _, rows, columns, _ = placed.result.shape
        spread = placed.scratch["bias_rows"].address
        asm.record(
            LaneTransfer(
                operation=TransferOp.BROADCAST,
                shape=(1, min(rows, self.lanes.count), columns, 1),
                dtype=DType.F32,
                result=spread,
                source=placed.operand(BIAS).address,
            )
        )
        row = Operand(spread, DType.F32, (0, 0, 1, 1))
        arithmetic(asm, ArithmeticOp.ADD, placed.result.shape, total, total, row)


class WeightOnlyKernel(KernelChoice[tpu.A16MatMul]):
    """Few rows, or many."""

    def __init__(self, target: Target = BM1684X) -> None:
        self._vector, self._rows = VectorKernel(target), RowsKernel(target)

    def kernel(self, node: Node) -> TileKernel[tpu.A16MatMul, Bm1684xAssembler]:
        x = node.operand_types[0]
        return self._vector if x.size <= FEW_ROWS * x.dims[-1] else self._rows
