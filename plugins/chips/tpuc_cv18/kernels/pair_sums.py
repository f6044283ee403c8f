"""Sums with a 16-bit number given as two byte operands, and with operands at lower resolution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tpuc.api import ABSENT, Axis, Box, KernelChoice, Node, Phase, PlacedTile, Scratch, Shape4, Space, Tile, View
from tpuc_chip_parts.tiles import tile_shape

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, DType, Operand, Scalar, Target
from tpuc_cv18.kernels.common import LaneKernel, element_refusal
from tpuc_cv18.kernels.elementwise import MAX_SHIFT, SumKernel
from tpuc_cv18.operands import MAX_EXTENT, operand

_RANK = 5
_HIGH, _LOW = 256, 1
_WIDE = 32767


class _Blocks(NamedTuple):
    """Blocks of `rows` by `columns` result elements that correspond to one element of the smaller operands."""

    n: int
    c: int
    rows: int
    w: int
    columns: int

    @property
    def result(self) -> Shape4:
        """The extents of the result."""
        return self.n, self.c, self.rows, self.w * self.columns

    @property
    def small(self) -> Shape4:
        """The extents of the smaller operands."""
        return self.n, self.c, 1, self.w


class PairSumKernel(LaneKernel[Any]):
    """Two operands are the byte planes of a 16-bit number in the result's extents `[n, c, rows, w, columns]`. The
    others, `[n, c, 1, w, 1]`, are added separately in 16 bits, and their sum is then added to each block of the
    result.

    Where the low plane is at a higher address than the high one, both are copied; the low plane is then the result's
    own.
    """

    def serves(self, node: Node) -> bool:
        """True for such a sum."""
        return self._pair(node) is not None and element_refusal(node) is None and self._fits(node)

    def _pair(self, node: Node) -> tuple[int, int] | None:
        """Indices of the high and the low byte among the operands, None if there is no such pair."""
        result = node.result_type
        if any(type_ is ABSENT for type_ in node.operand_types):
            return None
        if not result.is_quantized or len(result.dims) != _RANK:
            return None
        whole = [index for index, type_ in enumerate(node.operand_types) if type_.dims == result.dims]
        high, low = ([index for index in whole if node.op.multipliers[index] == factor] for factor in (_HIGH, _LOW))
        if len(whole) != 2 or len(high) != 1 or len(low) != 1:
            return None
        return (high[0], low[0]) if _is_unsigned(node, low[0]) else None

    def _fits(self, node: Node) -> bool:
        op, blocks = node.op, _blocks(node)
        n, c, _, w, _ = node.result_type.dims
        others = _others(node)
        largest = sum(abs(op.multipliers[index]) * (255 if _is_unsigned(node, index) else 128) for index in others)
        return (
            len(op.rshifts) == 1
            and 0 <= op.rshifts[0] <= MAX_SHIFT
            and not op.do_relu
            and len(others) > 0
            and all(node.operand_types[index].dims == (n, c, 1, w, 1) for index in others)
            and all(-128 <= op.multipliers[index] <= 127 for index in others)
            and largest <= _WIDE
            and max(blocks.result) <= MAX_EXTENT
        )

    def space(self, node: Node) -> Space:
        blocks = _blocks(node)
        axes = (
            *self.lanes.parallel_axes(blocks.result, "nc"),
            Axis("h", blocks.rows, granularity=blocks.rows, limit=MAX_EXTENT),
            Axis("w", blocks.w * blocks.columns, granularity=blocks.columns, limit=MAX_EXTENT),
        )
        views = tuple(
            View(blocks.result if type_.dims == node.result_type.dims else blocks.small) for type_ in node.operand_types
        )
        return Space(axes, views, (View(blocks.result),))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        boxes, columns = [*super().reads(node, space, tile)], _blocks(node).columns
        (n0, n1), (c0, c1), (w0, w1) = (tile.range(name) for name in "ncw")
        for index in _others(node):
            boxes[index] = Box((n0, c0, 0, w0 // columns), (n1 - n0, c1 - c0, 1, w1 // columns - w0 // columns))
        return boxes

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        n, c, h, w = tile_shape(tile)
        small = self.planes_bytes((n, c, 1, w // _blocks(node).columns))
        return (
            Scratch("high", self.planes_bytes((n, c, h, w)), above_results=True),
            Scratch("sum", 2 * small),
        )

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        columns, result = _blocks(node).columns, operand(placed.result)
        n, c, h, w = placed.result.shape
        pair, small = self._planes(node, placed, asm), self._small(node, placed, asm)
        part: Shape4 = (n, c, w // columns, columns)
        every_n, every_c, _, _ = small.strides((n, c, 1, w // columns), self.target)
        plane = small.step((n, c, 1, w // columns), self.target)
        right = Operand(small.address, small.dtype, (every_n, every_c, 1, 0), plane)
        for row in range(h):
            asm.record(
                Arithmetic(
                    operation=ArithmeticOp.ADD,
                    shape=part,
                    result=_row(result, placed.result.shape, row, columns, self.target),
                    left=_row(pair, placed.result.shape, row, columns, self.target),
                    right=right,
                    shift=node.op.rshifts[0],
                    relu=not result.dtype.signed,
                )
            )

    def _planes(self, node: Node, placed: PlacedTile, asm: Cv18Assembler) -> Operand:
        """The 16-bit operand."""
        found = self._pair(node)
        assert found is not None
        high, low = (operand(placed.operand(index)) for index in found)
        dtype = DType.INT16 if high.dtype.signed else DType.UINT16
        if low.address < high.address:
            return Operand(low.address, dtype, low.layout, high.address - low.address)
        shape = placed.result.shape
        result, above = placed.result.address, placed.scratch["high"].address
        for source, target in ((low, result), (high, above)):
            asm.record(
                Arithmetic(operation=ArithmeticOp.COPY, shape=shape, result=Operand(target, source.dtype), left=source)
            )
        return Operand(result, dtype, plane_step=above - result)

    def _small(self, node: Node, placed: PlacedTile, asm: Cv18Assembler) -> Operand:
        """The 16-bit sum of the smaller operands."""
        target = Operand(placed.scratch["sum"].address, DType.INT16)
        for is_first, index in _signed_first(node):
            source = placed.operand(index)
            asm.record(
                Arithmetic(
                    operation=ArithmeticOp.MUL if is_first else ArithmeticOp.MAC,
                    shape=source.shape,
                    result=target,
                    left=operand(source),
                    right=Scalar.of(node.op.multipliers[index], DType.INT8),
                )
            )
        return target


def _row(whole: Operand, shape: Shape4, row: int, columns: int, target: Target) -> Operand:
    """One row of a tensor with its elements in groups."""
    n, c, h, w = whole.strides(shape, target)
    return Operand(whole.address + row * h, whole.dtype, (n, c, columns * w, w), whole.step(shape, target))


def _blocks(node: Node) -> _Blocks:
    return _Blocks(*node.result_type.dims)


def _is_unsigned(node: Node, index: int) -> bool:
    return node.operand_types[index].storage.is_unsigned


def _others(node: Node) -> Sequence[int]:
    return [index for index, type_ in enumerate(node.operand_types) if type_.dims != node.result_type.dims]


def _signed_first(node: Node) -> Iterator[tuple[bool, int]]:
    """The smaller operands by descending multiplier, each with a flag that marks the first one."""
    order = sorted(_others(node), key=lambda index: -abs(node.op.multipliers[index]))
    return ((place == 0, index) for place, index in enumerate(order))


class AnySumKernel(KernelChoice[Any]):
    """Chooses the kernel for sums with a 16-bit number, or for bytes."""

    def __init__(self, target: Target) -> None:
        self._pairs, self._bytes = PairSumKernel(target), SumKernel(target)

    def kernel(self, node: Node) -> LaneKernel[Any]:
        return self._pairs if self._pairs.serves(node) else self._bytes
