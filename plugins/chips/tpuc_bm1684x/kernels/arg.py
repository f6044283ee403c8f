"""ArgMax and ArgMin along w within each lane, in chunks of the axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import (
    Axis,
    Box,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    Scratch,
    Shape4,
    Space,
    Tile,
    TileKernel,
    View,
)
from tpuc_ops import tpu
from tpuc_ops.arrays import Array

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import (
    ArithmeticOp,
    CompareOp,
    CompareSelect,
    DType,
    Operand,
    PoolOp,
    PoolOrDepthwise,
    Scalar,
)
from tpuc_bm1684x.kernels.common import OfChip, axis_extents
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.kernels.pool import lowest
from tpuc_bm1684x.operands import MAX_EXTENT, operand

_PART = 4096
"""Elements of the axis per chunk; larger chunks only enlarge the buffers."""
_EXACT = 1 << 24


class ArgKernel(OfChip, TileKernel[tpu.Arg, Bm1684xAssembler]):
    """Gives each element not below the maximum a number that decreases (or increases) along the axis; the largest such
    number identifies the index.

    Computes in f32. ArgMin negates the values; stored integers compare like the values they represent.
    """

    def refuse(self, node: Node) -> str | None:
        _, _, width = axis_extents(node)
        return f"at most {_EXACT - 1} values along the axis, there are {width}" if width >= _EXACT else None

    def space(self, node: Node) -> Space:
        outer, inner, width = axis_extents(node)
        source = View((1, outer, inner, width), (outer * width * inner, width * inner, 1, inner))
        axes = (
            Axis("c", outer, granularity=self.lanes.count, limit=MAX_EXTENT),
            Axis("h", inner, limit=MAX_EXTENT),
            Axis("k", width, reduction=True, granularity=self.lanes.count, limit=_PART),
        )
        return Space(axes, (source,), (View((1, outer, inner, 1)),))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        (c0, c1), (h0, h1), (k0, k1) = tile.range("c"), tile.range("h"), tile.range("k")
        return [Box((0, c0, h0, k0), (1, c1 - c0, h1 - h0, k1 - k0))]

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("places", ("k",), broadcast=True),)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return 1, 4 * tile.size("k")

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        places = np.arange(*tile.range("k"), dtype=np.float32)
        numbers = places + 1 if node.op.select_last_index else axis_extents(node)[2] - places
        return numbers.view(np.uint8).reshape(1, -1)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        lmem = self.lmem
        rows = (1, tile.size("c"), tile.size("h"))
        whole = lmem.tensor_bytes("aligned", (*rows, tile.size("k")), 4)
        column = lmem.tensor_bytes("aligned", (*rows, 1), 4)
        names = ("values", "numbers") if self._is_prepared(node) else ("numbers",)
        return [
            *(Scratch(name, whole) for name in names),
            *(Scratch(name, column) for name in ("best", "found", "extreme", "number")),
        ]

    def _is_prepared(self, node: Node) -> bool:
        return node.op.mode == "ArgMin" or node.operand_types[0].storage.name != "f32"

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        op, shape, column = node.op, placed.operand(0).shape, placed.result.shape
        best, found, extreme, number = (
            Operand(placed.scratch[name].address, DType.F32) for name in ("best", "found", "extreme", "number")
        )
        if phase.starts:
            extreme, number = best, found
        values = self._values(node, placed, asm)
        _maximum(values, extreme, shape, column, asm)
        numbers = Operand(placed.scratch["numbers"].address, DType.F32)
        repeated = Operand(extreme.address, DType.F32, (*extreme.strides(column, self.target)[:3], 0))
        # Not by equality, which the chip tests bitwise: 0 and -0 differ.
        arithmetic(asm, ArithmeticOp.SELECT_LESS, shape, numbers, values, repeated, third=Scalar.of(1.0, DType.F32))
        places = Operand(placed.constants["places"].address, DType.F32, (0, 0, 0, 1))
        arithmetic(asm, ArithmeticOp.MUL, shape, numbers, numbers, places)
        arithmetic(asm, ArithmeticOp.SUB, shape, numbers, places, numbers)
        _maximum(numbers, number, shape, column, asm)
        if not phase.starts:
            # The earlier part keeps its index where both extremes are equal, unless the last one is requested.
            left, right, yes, no = (
                (best, extreme, found, number) if op.select_last_index else (extreme, best, number, found)
            )
            asm.record(
                CompareSelect(
                    operation=CompareOp.SELECT_GREATER,
                    shape=column,
                    result=found,
                    left=left,
                    right=right,
                    when_true=yes,
                    when_false=no,
                )
            )
            arithmetic(asm, ArithmeticOp.MAX, column, best, best, extreme)
        if phase.ends:
            result = operand(placed.result)
            if op.select_last_index:
                arithmetic(asm, ArithmeticOp.SUB, column, result, found, Scalar.of(1.0, DType.F32))
            else:
                count = Scalar.of(float(axis_extents(node)[2]), DType.F32)
                arithmetic(asm, ArithmeticOp.SUB, column, result, count, found)

    def _values(self, node: Node, placed: PlacedTile, asm: Bm1684xAssembler) -> Operand:
        source, shape = operand(placed.operand(0)), placed.operand(0).shape
        if not self._is_prepared(node):
            return source
        values = Operand(placed.scratch["values"].address, DType.F32)
        if source.dtype is not DType.F32:
            arithmetic(asm, ArithmeticOp.CAST, shape, values, source)
            source = values
        if node.op.mode == "ArgMin":
            arithmetic(asm, ArithmeticOp.MUL, shape, values, source, Scalar.of(-1.0, DType.F32))
        return values


def _maximum(source: Operand, result: Operand, shape: Shape4, column: Shape4, asm: Bm1684xAssembler) -> None:
    asm.record(
        PoolOrDepthwise(
            operation=PoolOp.MAX,
            result=result,
            shape=column,
            input=source,
            input_size=(shape[2], shape[3]),
            kernel=(1, shape[3]),
            pad_value=lowest(DType.F32),
        )
    )
