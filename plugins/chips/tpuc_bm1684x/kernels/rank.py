"""Places in order: every element, one per lane, is compared with its whole row along w."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.api import (
    Axis,
    Box,
    Layouts,
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
from tpuc_ops.tpu.rank import Rank

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import (
    ArithmeticOp,
    DType,
    LaneTransfer,
    Operand,
    PoolOp,
    PoolOrDepthwise,
    Scalar,
    TransferOp,
)
from tpuc_bm1684x.isa.geometry import LANES
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.kernels.packing import by_lane, slots_of
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_bm1684x.operands import operand

Array: TypeAlias = npt.NDArray[Any]

LONGEST = 1 << 15
"""Elements of a row: the work grows with their square."""
_PART = 4096


class RankKernel(TileKernel[Rank]):
    """In f32: how many come before, and how many equal ones are earlier."""

    def refuse(self, node: Node) -> str | None:
        rows, count = node.result_type.dims
        if count > LONGEST or rows > LONGEST:
            return f"at most {LONGEST} rows and values in a row, these are {rows}x{count}"
        return None

    def space(self, node: Node) -> Space:
        rows, count = node.result_type.dims
        column = View((rows, count, 1, 1))
        axes = (
            Axis("n", rows),
            Axis("c", count, granularity=LANES),
            Axis("k", count, reduction=True, granularity=LANES, limit=_PART),
        )
        return Space(axes, (column, View((rows, 1, 1, count))), (column,))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        (n0, n1), (c0, c1), (k0, k1) = tile.range("n"), tile.range("c"), tile.range("k")
        return [Box((n0, c0, 0, 0), (n1 - n0, c1 - c0, 1, 1)), Box((n0, 0, 0, k0), (n1 - n0, 1, 1, k1 - k0))]

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned", "aligned"), ("aligned",))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("own", ("c",)), PackedConstant("places", ("k",), broadcast=True))

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        if name == "own":
            return min(LANES, tile.size("c")), 4 * slots_of(tile.size("c"))
        return 1, 4 * tile.size("k")

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        places = np.arange(*tile.range("c" if name == "own" else "k"), dtype=np.float32)
        return by_lane(places.reshape(-1, 1)) if name == "own" else places.view(np.uint8).reshape(1, -1)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        lmem = Bm1684xLmem()
        n, c, k = tile.size("n"), tile.size("c"), tile.size("k")
        row, column = (lmem.tensor_bytes("aligned", shape, 4) for shape in ((n, 1, 1, k), (n, c, 1, 1)))
        whole = lmem.tensor_bytes("aligned", (n, c, 1, k), 4)
        sizes = {"row": row, "column": column, "before": whole, "other": whole, "part": column, "total": column}
        return [Scratch(name, size) for name, size in sizes.items()]

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        column_shape, row_shape = placed.operand(0).shape, placed.operand(1).shape
        n, c, _, _ = column_shape
        shape = (n, c, 1, row_shape[3])
        found = {name: Operand(block.address, DType.F32) for name, block in placed.scratch.items()}
        for name, local in (("column", placed.operand(0)), ("row", placed.operand(1))):
            source = operand(local)
            if source.dtype is not DType.F32:
                arithmetic(asm, ArithmeticOp.CAST, local.shape, found[name], source)
                source = found[name]
            # Makes -0 to 0: the chip's equality is one of bits.
            arithmetic(asm, ArithmeticOp.ADD, local.shape, found[name], source, Scalar.of(0.0, DType.F32))
        asm.record(
            LaneTransfer(
                operation=TransferOp.BROADCAST,
                shape=(n, min(c, LANES), 1, shape[3]),
                dtype=DType.F32,
                result=found["row"].address,
                source=found["row"].address,
            )
        )
        batch, slot, _, _ = found["column"].strides(column_shape)
        column = Operand(found["column"].address, DType.F32, (batch, slot, 0, 0))
        row = Operand(found["row"].address, DType.F32, (found["row"].strides(row_shape)[0], 0, 0, 1))
        own = Operand(placed.constants["own"].address, DType.F32, (0, 1, 0, 0))
        places = Operand(placed.constants["places"].address, DType.F32, (0, 0, 0, 1))
        before, other, one = found["before"], found["other"], Scalar.of(1.0, DType.F32)
        arithmetic(asm, ArithmeticOp.SELECT_LESS, shape, before, places, own, third=one)
        arithmetic(asm, ArithmeticOp.SELECT_EQUAL, shape, other, row, column, third=one)
        arithmetic(asm, ArithmeticOp.MUL, shape, before, before, other)
        precedes = ArithmeticOp.SELECT_GREATER if node.op.largest else ArithmeticOp.SELECT_LESS
        arithmetic(asm, precedes, shape, other, row, column, third=one)
        arithmetic(asm, ArithmeticOp.ADD, shape, before, before, other)
        total, part = found["total"], found["part"]
        asm.record(
            PoolOrDepthwise(
                operation=PoolOp.AVERAGE,
                result=total if phase.starts else part,
                shape=column_shape,
                input=before,
                input_size=(1, shape[3]),
                kernel=(1, shape[3]),
                weight=one,
            )
        )
        if not phase.starts:
            arithmetic(asm, ArithmeticOp.ADD, column_shape, total, total, part)
        if phase.ends:
            arithmetic(asm, ArithmeticOp.CAST, column_shape, operand(placed.result), total)
