"""Cumulative sums and products along h within each lane."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Node, Phase, PlacedTile, Scratch, Shape4, Space, Tile, TileKernel, View
from tpuc_ops import tpu

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, Scalar
from tpuc_bm1684x.kernels.common import OfChip, axis_extents
from tpuc_bm1684x.kernels.elementwise import arithmetic, convert, part_from
from tpuc_bm1684x.operands import operand

_ENOUGH_LANES = 32


def longest(lane_bytes: int) -> int:
    """Maximum extent of the axis: operand, result and two f32 buffers share a lane, double-buffered across tiles."""
    return lane_bytes // 32


class ScanKernel(OfChip, TileKernel[tpu.Scan, Bm1684xAssembler]):
    """Prefix scan by doubling between two f32 buffers: combines each row with the row 1, 2, 4, ... before it."""

    def refuse(self, node: Node) -> str | None:
        _, _, length = axis_extents(node)
        if not node.operand_types[0].storage.is_float:
            return f"only floats, these are {node.operand_types[0].storage}"
        most = longest(self.target.lane_bytes)
        return f"at most {most} values along the axis, there are {length}" if length > most else None

    def space(self, node: Node) -> Space:
        outer, inner, length = axis_extents(node)
        if outer >= _ENOUGH_LANES or inner == 1:
            view = View((1, outer, length, inner))
        else:
            lanes = next(count for count in range(self.lanes.count, 0, -1) if inner % count == 0)
            width = inner // lanes
            view = View((outer, lanes, length, width), (length * inner, width, inner, 1))
        return Space(self.lanes.parallel_axes(view.shape, whole="h"), (view,), (view,))

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        shape = (tile.size("n"), tile.size("c"), tile.size("h"), tile.size("w"))
        size = self.lmem.tensor_bytes("aligned", shape, 4)
        return (Scratch("even", size), Scratch("odd", size))

    def emit(self, node: Node[tpu.Scan], placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, current = placed.result.shape, operand(placed.operand(0))
        even, odd = (Operand(placed.scratch[name].address, DType.F32) for name in ("even", "odd"))
        if current.dtype is not DType.F32:
            arithmetic(asm, ArithmeticOp.CAST, shape, odd, current)
            current = odd
        combine = ArithmeticOp.ADD if node.op.mode == "Sum" else ArithmeticOp.MUL
        current = scan(asm, combine, shape, current, (even, odd), reverse=node.op.reverse)
        self._finish(node.op, current, placed, asm)

    def _finish(self, op: tpu.Scan, current: Operand, placed: PlacedTile, asm: Bm1684xAssembler) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        if not op.exclusive:
            convert(asm, shape, result, current)
            return
        last = shape[2] - 1
        target, source, first = (0, 1, last) if op.reverse else (1, 0, 0)
        if last:
            convert(
                asm,
                _rows(shape, last),
                part_from(result, shape, asm.target, row=target),
                part_from(current, shape, asm.target, row=source),
            )
        start = Scalar.of(0.0 if op.mode == "Sum" else 1.0, result.dtype)
        arithmetic(asm, ArithmeticOp.COPY, _rows(shape, 1), part_from(result, shape, asm.target, row=first), start)


def scan(
    asm: Bm1684xAssembler,
    combine: ArithmeticOp,
    shape: Shape4,
    current: Operand,
    buffers: tuple[Operand, Operand],
    *,
    reverse: bool = False,
) -> Operand:
    """Combine each row with all rows before it; returns the one of two buffers that has the result, or `current` where
    there is a single row.
    """
    length, step = shape[2], 1
    while step < length:
        target, rest = buffers[0], length - step
        kept, changed, before = (0, step, 0) if not reverse else (rest, 0, step)
        arithmetic(
            asm,
            combine,
            _rows(shape, rest),
            part_from(target, shape, asm.target, row=changed),
            part_from(current, shape, asm.target, row=changed),
            part_from(current, shape, asm.target, row=before),
        )
        arithmetic(
            asm,
            ArithmeticOp.COPY,
            _rows(shape, step),
            part_from(target, shape, asm.target, row=kept),
            part_from(current, shape, asm.target, row=kept),
        )
        current, step = target, step * 2
        buffers = (buffers[1], buffers[0])
    return current


def _rows(shape: Shape4, count: int) -> Shape4:
    n, c, _, w = shape
    return (n, c, count, w)
