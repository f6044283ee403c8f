"""Places of the best elements of long rows: a row lies across all lanes, and counting finds the least of its best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Axis, Box, Layouts, Node, PackedConstant, Phase, PlacedTile, Scratch, Space, Tile, TileKernel, View
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, Conv, DType, Layout, Operand, Scalar
from tpuc_bm1684x.isa.types import Shape4
from tpuc_bm1684x.kernels.common import OfChip
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.kernels.packing import pack_filter
from tpuc_bm1684x.kernels.rank import count
from tpuc_bm1684x.kernels.scan import scan
from tpuc_bm1684x.operands import operand

MOST_PER_LANE = 1 << 11
"""Elements of a row in one lane; f16 represents their number exactly."""
LANE_UNIT = 16
"""Elements of a row in one lane are a multiple of this: whole vectors of f32 on every chip of the family."""
_BIGGEST = (1 << 31) - 1
_UNUSED_BITS = {"f16": 13, "bf16": 16}
"""Low bits that are 0 in f32."""
_WHOLE, _LANES = ("key", "mask", "above", "equal", "even", "odd", "before"), ("least", "next", "part", "sum", "half")


class BestPlacesKernel(OfChip, TileKernel[tpu.BestPlaces, Bm1684xAssembler]):
    """Finds the least of the best elements bit by bit: a bit is set if enough elements are not below the number.

    Elements become integers of the same order. Then prefix sums number the elements above the least, and those equal to
    it as far as they are needed: within lanes by doubling, across lanes by a product with a triangular matrix.
    """

    def refuse(self, node: Node[tpu.BestPlaces]) -> str | None:
        length, unit = node.result_type.dims[1], self.lanes.count * LANE_UNIT
        if length % unit or length > self.lanes.count * MOST_PER_LANE:
            return f"rows of a multiple of {unit} elements, at most {self.lanes.count * MOST_PER_LANE}"
        return None

    def space(self, node: Node[tpu.BestPlaces]) -> Space:
        rows, length = node.result_type.dims
        view = View((rows, self.lanes.count, length // self.lanes.count, 1))
        fixed = (Axis(name, size, granularity=size) for name, size in zip("chw", view.shape[1:], strict=True))
        return Space((Axis("n", rows), *fixed), (view,), (view,))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        (n0, n1), (_, *shape) = tile.range("n"), space.results[0].shape
        return [Box((n0, 0, 0, 0), (n1 - n0, shape[0], shape[1], shape[2]))]

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("earlier", ()),)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return self.lanes.count, self.lanes.count * 2

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        """A filter that sums the lanes before each lane."""
        earlier = np.tri(self.lanes.count, k=-1, dtype=np.float16)
        return pack_filter(earlier[:, :, None, None].view(np.uint16), self.target.packing[2], self.target)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        shape = (tile.size("n"), self.lanes.count, tile.size("h"), 1)
        whole, column = (self.lmem.tensor_bytes("aligned", one, 4) for one in (shape, (*shape[:2], 1, 1)))
        return [*(Scratch(name, whole) for name in _WHOLE), *(Scratch(name, column) for name in _LANES)]

    def emit(self, node: Node[tpu.BestPlaces], placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        storage, shape = node.operand_types[0].storage, placed.result.shape
        row = _Row(placed, shape, asm)
        bits, lowest = 32 - _UNUSED_BITS.get(storage.name, 0), -1 << (31 - _UNUSED_BITS.get(storage.name, 0))
        if not storage.is_float:
            bits, lowest = storage.bits, 0 if storage.is_unsigned else -(1 << (storage.bits - 1))
        if not node.op.largest:
            lowest = -lowest - (1 << bits)
        row.make_keys(32 - bits if storage.is_float else 0, is_float=storage.is_float, largest=node.op.largest)
        row.find_least(bits, lowest, node.op.kept)
        row.number(node.op.kept, operand(placed.result))


@dataclass(frozen=True)
class _Row:
    """Commands on a tile of rows, each across all lanes."""

    placed: PlacedTile
    shape: Shape4
    asm: Bm1684xAssembler

    @property
    def column(self) -> Shape4:
        """One number per lane."""
        return (*self.shape[:2], 1, 1)

    def of(self, name: str, dtype: DType = DType.F32) -> Operand:
        return Operand(self.placed.scratch[name].address, dtype)

    def spread(self, name: str, dtype: DType = DType.F32) -> Operand:
        """A number per lane as an operand of all elements of the lane."""
        batch, slot, _, _ = self.of(name, dtype).strides(self.column, self.asm.target)
        return Operand(self.of(name).address, dtype, (batch, slot, 0, 0))

    def make_keys(self, unused_bits: int, *, is_float: bool, largest: bool) -> None:
        """Integers in the order of the elements, better ones larger."""
        asm, shape, key, other = self.asm, self.shape, self.of("key", DType.INT32), self.of("mask", DType.INT32)
        source = operand(self.placed.operand(0))
        if not is_float:
            arithmetic(asm, ArithmeticOp.CAST, shape, key, source)
        else:
            if source.dtype is not DType.F32:
                arithmetic(asm, ArithmeticOp.CAST, shape, self.of("even"), source)
                source = self.of("even")
            # Turn -0 into 0, which is equal to it.
            arithmetic(asm, ArithmeticOp.ADD, shape, self.of("key"), source, Scalar.of(0.0, DType.F32))
            shift = Scalar.of(-31, DType.INT8)
            arithmetic(asm, ArithmeticOp.ARITHMETIC_SHIFT, shape, other, key, shift, rounding=Rounding.DOWN)
            arithmetic(asm, ArithmeticOp.AND, shape, other, other, Scalar.of(_BIGGEST, DType.INT32))
            arithmetic(asm, ArithmeticOp.XOR, shape, key, key, other)
            if unused_bits:
                shift = Scalar.of(-unused_bits, DType.INT8)
                arithmetic(asm, ArithmeticOp.ARITHMETIC_SHIFT, shape, key, key, shift, rounding=Rounding.DOWN)
        if not largest:
            arithmetic(asm, ArithmeticOp.NOT, shape, key, key)

    def compare(self, operation: ArithmeticOp, bound: str, result: str) -> None:
        """1.0 where the comparison of the keys with a number holds, else 0.0."""
        mask, one = self.of("mask", DType.INT32), Scalar.of(1, DType.INT32)
        arithmetic(
            self.asm,
            operation,
            self.shape,
            mask,
            self.of("key", DType.INT32),
            self.spread(bound, DType.INT32),
            third=one,
        )
        arithmetic(self.asm, ArithmeticOp.CAST, self.shape, self.of(result), mask)

    def across(self, name: str, result: str, weight: Operand | Scalar) -> None:
        """Sum the numbers of the lanes, with weights."""
        half, lanes = self.of("half", DType.F16), self.shape[1]
        arithmetic(self.asm, ArithmeticOp.CAST, self.column, half, self.of(name))
        self.asm.record(
            Conv(
                result=self.of(result),
                result_shape=self.column,
                input=half,
                input_shape=(lanes, 1, 1),
                weight=weight,
            )
        )

    def find_least(self, bits: int, lowest: int, kept: int) -> None:
        """The largest number that at least `kept` keys are not below."""
        asm, column = self.asm, self.column
        least, other = self.of("least", DType.INT32), self.of("next", DType.INT32)
        arithmetic(asm, ArithmeticOp.COPY, column, least, Scalar.of(lowest, DType.INT32))
        too_many = self.shape[1] * self.shape[2] - kept + 0.5
        for bit in reversed(range(bits)):
            step = Scalar.of((1 << bit) - ((bit == 31) << 32), DType.INT32)
            arithmetic(asm, ArithmeticOp.ADD, column, other, least, step)
            self.compare(ArithmeticOp.SELECT_LESS, "next", "even")
            n, lanes, length, _ = self.shape
            count(self.of("even"), self.of("odd"), (n, lanes, 1, length), self.of("part"), asm)
            self.across("part", "sum", Scalar.of(1.0, DType.F16))
            one = Scalar.of(1.0, DType.F32)
            bound = Scalar.of(too_many, DType.F32)
            arithmetic(asm, ArithmeticOp.SELECT_LESS, column, self.of("part"), self.of("sum"), bound, third=one)
            arithmetic(asm, ArithmeticOp.CAST, column, other, self.of("part"))
            arithmetic(asm, ArithmeticOp.MUL, column, other, other, step)
            arithmetic(asm, ArithmeticOp.ADD, column, least, least, other)

    def number(self, kept: int, result: Operand) -> None:
        """The place of each of the best: how many before it are above the least, or equal to it and needed."""
        asm, shape = self.asm, self.shape
        above, equal, before = self.of("above"), self.of("equal"), self.of("before")
        limit, one = Scalar.of(float(kept), DType.F32), Scalar.of(1.0, DType.F32)
        self.compare(ArithmeticOp.SELECT_GREATER, "least", "above")
        self.compare(ArithmeticOp.SELECT_EQUAL, "least", "equal")
        self.before("above", "before")
        self.across("part", "sum", Scalar.of(1.0, DType.F16))
        arithmetic(asm, ArithmeticOp.SUB, self.column, self.of("next"), limit, self.of("sum"))  # equal ones needed
        self.before("equal", "mask")
        equal_before, needed = self.of("mask"), self.spread("next")
        arithmetic(asm, ArithmeticOp.SELECT_LESS, shape, self.of("even"), equal_before, needed, third=one)
        arithmetic(asm, ArithmeticOp.MUL, shape, self.of("odd"), self.of("even"), equal)
        arithmetic(asm, ArithmeticOp.ADD, shape, self.of("even"), self.of("odd"), above)  # 1 for the best
        arithmetic(asm, ArithmeticOp.MIN, shape, self.of("odd"), equal_before, needed)
        arithmetic(asm, ArithmeticOp.ADD, shape, equal, self.of("odd"), before)
        arithmetic(asm, ArithmeticOp.SUB, shape, above, equal, limit)
        arithmetic(asm, ArithmeticOp.MUL, shape, equal, above, self.of("even"))
        arithmetic(asm, ArithmeticOp.ADD, shape, above, equal, limit)
        arithmetic(asm, ArithmeticOp.CAST, shape, result, above)

    def before(self, ones: str, result: str) -> None:
        """How many ones are before each element of the row; `part` then has the number of each lane."""
        asm, shape, target = self.asm, self.shape, self.asm.target
        sums = scan(asm, ArithmeticOp.ADD, shape, self.of(ones), (self.of("even"), self.of("odd")))
        batch, slot, row, _ = sums.strides(shape, target)
        last = Operand(sums.address + (shape[2] - 1) * row * 4, DType.F32, (batch, slot, row, 1))
        arithmetic(asm, ArithmeticOp.COPY, self.column, self.of("part"), last)
        weight = Operand(self.placed.constants["earlier"].address, DType.F16, Layout.COMPACT)
        self.across("part", "sum", weight)
        free = self.of("odd" if sums.address == self.of("even").address else "even")
        arithmetic(asm, ArithmeticOp.SUB, shape, free, sums, self.of(ones))
        arithmetic(asm, ArithmeticOp.ADD, shape, self.of(result), free, self.spread("sum"))
