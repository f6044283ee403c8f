"""Sorting by rank: compares each element, one per lane, with its whole row along w."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np
from tpuc.api import (
    Axis,
    Box,
    Layouts,
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
from tpuc_chip_parts.lanes import Lanes
from tpuc_ops import tpu
from tpuc_ops.arrays import Array

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
from tpuc_bm1684x.isa.types import Pair
from tpuc_bm1684x.kernels.common import OfChip
from tpuc_bm1684x.kernels.elementwise import arithmetic, part_from
from tpuc_bm1684x.operands import operand

LONGEST = 1 << 15
"""Maximum row length; the work grows quadratically with it."""
_PART = 1024


class _Side(enum.Enum):
    """Position of a chunk of the row relative to a lane's own element."""

    EARLIER = "earlier"
    AROUND = "around"
    LATER = "later"


def _sides(tile: Tile, channels: int, lanes: Lanes) -> list[tuple[int, int, _Side]]:
    """Ranges of lane slots with the relative position of the tile's chunk of the row."""
    (c0, _), (k0, k1), count = tile.range("c"), tile.range("k"), lanes.slots_of(channels)
    later = min(max((k0 - c0) // lanes.count, 0), count)
    earlier = max(min(max(-((c0 - k1) // lanes.count), 0), count), later)
    ranges = ((0, later, _Side.LATER), (later, earlier, _Side.AROUND), (earlier, count, _Side.EARLIER))
    return [part for part in ranges if part[0] < part[1]]


class RankKernel(OfChip, TileKernel[tpu.Rank, Bm1684xAssembler]):
    """Rank in f32: the number of elements that sort before, plus the number of earlier equal ones."""

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
            Axis("c", count, granularity=self.lanes.count),
            Axis("k", count, reduction=True, granularity=self.lanes.count, limit=_PART),
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
            return min(self.lanes.count, tile.size("c")), 4 * self.lanes.slots_of(tile.size("c"))
        return 1, 4 * tile.size("k")

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        places = np.arange(*tile.range("c" if name == "own" else "k"), dtype=np.float32)
        return self.lanes.by_lane(places.reshape(-1, 1)) if name == "own" else places.view(np.uint8).reshape(1, -1)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        lmem = self.lmem
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
            # Turn -0 into 0: the chip tests equality bitwise.
            arithmetic(asm, ArithmeticOp.ADD, local.shape, found[name], source, Scalar.of(0.0, DType.F32))
        asm.record(
            LaneTransfer(
                operation=TransferOp.BROADCAST,
                shape=(n, min(c, self.lanes.count), 1, shape[3]),
                dtype=DType.F32,
                result=found["row"].address,
                source=found["row"].address,
            )
        )
        for first, end, side in _sides(placed.tile, c, self.lanes):
            self._compare(node.op, placed, found, (first, end), side, asm)
        total, part = found["total"], found["part"]
        count(found["before"], found["other"], shape, total if phase.starts else part, asm)
        if not phase.starts:
            arithmetic(asm, ArithmeticOp.ADD, column_shape, total, total, part)
        if phase.ends:
            arithmetic(asm, ArithmeticOp.CAST, column_shape, operand(placed.result), total)

    def _compare(
        self,
        op: tpu.Rank,
        placed: PlacedTile,
        found: dict[str, Operand],
        slots: tuple[int, int],
        side: _Side,
        asm: Bm1684xAssembler,
    ) -> None:
        """Mark with 1 each element of the row that sorts before the lane's own element, for a range of slots."""
        (n, c, _, _), row_shape = placed.operand(0).shape, placed.operand(1).shape
        first, end = slots
        shape = (n, min(end * self.lanes.count, c) - first * self.lanes.count, 1, row_shape[3])
        whole = (n, c, 1, row_shape[3])
        before, other = (part_from(found[name], whole, self.target, slot=first) for name in ("before", "other"))
        batch, slot, _, _ = found["column"].strides(placed.operand(0).shape, self.target)
        column = Operand(found["column"].address + first * slot * 4, DType.F32, (batch, slot, 0, 0))
        row = Operand(found["row"].address, DType.F32, (found["row"].strides(row_shape, self.target)[0], 0, 0, 1))
        one = Scalar.of(1.0, DType.F32)
        precedes, follows = ArithmeticOp.SELECT_GREATER, ArithmeticOp.SELECT_LESS
        if not op.largest:
            precedes, follows = follows, precedes
        if side is _Side.LATER:  # equal ones stay behind
            arithmetic(asm, precedes, shape, before, row, column, third=one)
            return
        if side is _Side.EARLIER:  # equal ones come before
            arithmetic(asm, follows, shape, before, row, column, third=one)
            arithmetic(asm, ArithmeticOp.SUB, shape, before, one, before)
            return
        own = Operand(placed.constants["own"].address + first * 4, DType.F32, (0, 1, 0, 0))
        places = Operand(placed.constants["places"].address, DType.F32, (0, 0, 0, 1))
        arithmetic(asm, ArithmeticOp.SELECT_LESS, shape, before, places, own, third=one)
        arithmetic(asm, ArithmeticOp.SELECT_EQUAL, shape, other, row, column, third=one)
        arithmetic(asm, ArithmeticOp.MUL, shape, before, before, other)
        arithmetic(asm, precedes, shape, other, row, column, third=one)
        arithmetic(asm, ArithmeticOp.ADD, shape, before, before, other)


def count(values: Operand, sums: Operand, shape: Shape4, target: Operand, asm: Bm1684xAssembler) -> None:
    """Sum each row. Pooling over whole vectors takes one cycle per vector, pooling within a vector one per element."""
    n, c, _, width = shape
    vector = asm.target.vector(values.dtype.bytes)
    if width % vector:
        vector, sums = width, values
    else:
        _sum(values, sums, (n, c, 1, vector), (width // vector, vector), (width // vector, 1), asm)
    _sum(sums, target, (n, c, 1, 1), (1, vector), (1, vector), asm)


def _sum(values: Operand, target: Operand, shape: Shape4, size: Pair, kernel: Pair, asm: Bm1684xAssembler) -> None:
    asm.record(
        PoolOrDepthwise(
            operation=PoolOp.AVERAGE,
            result=target,
            shape=shape,
            input=values,
            input_size=size,
            kernel=kernel,
            weight=Scalar.of(1.0, DType.F32),
        )
    )
