"""ArgMax and ArgMin with large trailing dimensions: compares whole rows, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import (
    Axis,
    Box,
    KernelChoice,
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
from tpuc_ops import tpu

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, CompareOp, CompareSelect, DType, Operand, Scalar
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.kernels.arg import ArgKernel
from tpuc_bm1684x.kernels.common import OfChip, axis_extents
from tpuc_bm1684x.kernels.elementwise import arithmetic, convert, part_from
from tpuc_bm1684x.operands import MAX_EXTENT, operand

_LEAST_WIDTH = 64
"""Minimum number of elements after the axis for which transferring whole rows is faster than single elements."""
_MOST_ROWS = 4096
"""Maximum length of the axis; each row takes three instructions."""
_BUFFERS = ("row", "best", "found")


class ArgRowsKernel(OfChip, TileKernel[tpu.Arg, Bm1684xAssembler]):
    """Keeps the best value and its index per row element, in f32, and updates both with each row."""

    def serves(self, node: Node) -> bool:
        """True for long rows that are not too many."""
        _, inner, length = axis_extents(node)
        return inner >= _LEAST_WIDTH and length <= _MOST_ROWS

    def space(self, node: Node) -> Space:
        outer, inner, length = axis_extents(node)
        lanes = next(count for count in range(self.lanes.count, 0, -1) if inner % count == 0)
        width = inner // lanes
        source = View((outer, lanes, length, width), (length * inner, width, inner, 1))
        axes = (
            Axis("n", outer, limit=MAX_EXTENT),
            Axis("c", lanes, granularity=self.lanes.count),
            Axis("w", width, limit=MAX_EXTENT),
            Axis("k", length, reduction=True),
        )
        return Space(axes, (source,), (View((outer, lanes, 1, width)),))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        (n0, n1), (c0, c1), (w0, w1), (k0, k1) = (tile.range(name) for name in "ncwk")
        return [Box((n0, c0, k0, w0), (n1 - n0, c1 - c0, k1 - k0, w1 - w0))]

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        size = self.lmem.tensor_bytes("aligned", (tile.size("n"), tile.size("c"), 1, tile.size("w")), 4)
        return [Scratch(name, size) for name in _BUFFERS]

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, source = placed.result.shape, operand(placed.operand(0))
        row, best, found = (Operand(placed.scratch[name].address, DType.F32) for name in _BUFFERS)
        first, end = placed.tile.range("k")
        for number in range(first, end):
            values = part_from(source, placed.operand(0).shape, self.target, row=number - first)
            if number == 0:
                convert(asm, shape, best, values)
                arithmetic(asm, ArithmeticOp.COPY, shape, found, Scalar.of(0.0, DType.F32))
                continue
            convert(asm, shape, row, values)
            self._compare(node.op, shape, row, best, found, number, asm)
        if phase.ends:
            arithmetic(asm, ArithmeticOp.COPY, shape, operand(placed.result), found)

    def _compare(
        self,
        op: tpu.Arg,
        shape: Shape4,
        row: Operand,
        best: Operand,
        found: Operand,
        number: int,
        asm: Bm1684xAssembler,
    ) -> None:
        """Update the index of the best value. On ties the earlier index is kept, unless the op selects the last one."""
        beyond = CompareOp.SELECT_GREATER if op.mode == "ArgMax" else CompareOp.SELECT_LESS
        place = Scalar.of(float(number), DType.F32)
        last = op.select_last_index
        asm.record(
            CompareSelect(
                operation=beyond,
                shape=shape,
                result=found,
                left=best if last else row,
                right=row if last else best,
                when_true=found if last else place,
                when_false=place if last else found,
            )
        )
        arithmetic(asm, ArithmeticOp.MAX if op.mode == "ArgMax" else ArithmeticOp.MIN, shape, best, best, row)


class AnyArgKernel(KernelChoice[tpu.Arg]):
    """Chooses `ArgRowsKernel` for long rows, else `ArgKernel`."""

    def __init__(self, target: Target = BM1684X) -> None:
        self._rows, self._elements = ArgRowsKernel(target), ArgKernel(target)

    def kernel(self, node: Node) -> TileKernel[Any, Bm1684xAssembler]:
        return self._rows if self._rows.serves(node) else self._elements
