"""Concat and Slice of resident tensors: copies within and between lanes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tpuc.api import (
    Axis,
    Box,
    Candidate,
    LocalTensor,
    Node,
    Phase,
    PlacedTile,
    Shape4,
    Space,
    TensorType,
    Tile,
    TileKernel,
    View,
    elementwise_view,
)
from tpuc_ops.shapes import positive_axis, slice_ranges

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, LaneTransfer, Operand, TensorCopy, TransferOp
from tpuc_bm1684x.isa.command import Bm1684xInstruction
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.kernels.common import OfChip, in_spaces, row_blocks, too_large
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.operands import operand
from tpuc_bm1684x.timing import cycles

_CHANNELS, _COLUMNS = 1, 3
_MOST_BACKWARDS = 16
"""Maximum number of elements in reverse order, which are copied one by one."""


class LocalMoveKernel(OfChip, TileKernel[Any, Bm1684xAssembler]):
    """Base of moves of whole tensors in one tile. They only pay off where operands and result stay resident: from DDR
    to DDR they move the data twice.
    """

    def serves(self, node: Node) -> bool:
        """True when local memory can hold the node's tensors in four-dimensional views."""
        types = [*node.operand_types, node.result_type]
        return all(2 <= len(type_.dims) <= 4 for type_ in types) and too_large(types) is None

    def kernels(self, node: Node) -> Sequence[Candidate]:
        return in_spaces(self, self.views(node))

    def views(self, node: Node) -> Sequence[Space]:
        """Candidate spaces. Along the last dimension short rows may form blocks, so that no element leaves its lane."""
        blocks = [row_blocks(type_.dims, self.target) for type_ in (*node.operand_types, node.result_type)]
        views = [View(elementwise_view(type_.dims)) for type_ in (*node.operand_types, node.result_type)]
        if self.axis(node) != node.result_type.rank - 1:
            return (self._whole(views),)
        return (
            *([self._whole([b for b in blocks if b is not None])] if None not in blocks else ()),
            self._whole(views),
        )

    def _whole(self, views: Sequence[View]) -> Space:
        *operands, result = views
        axes = tuple(Axis(name, size, granularity=size) for name, size in zip("nchw", result.shape, strict=True))
        return Space(axes, tuple(operands), (result,))

    def axis(self, node: Node) -> int | None:
        """The only dimension in which operands and result differ; None where there are several."""
        raise NotImplementedError

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        return [None if view is None else Box((0, 0, 0, 0), view.shape) for view in space.operands]


class LocalConcatKernel(LocalMoveKernel):
    """Concat along channels, rows or columns."""

    def serves(self, node: Node) -> bool:
        return super().serves(node) and self.axis(node) >= _CHANNELS

    def axis(self, node: Node) -> int:
        return positive_axis(node.op.axis, node.result_type.rank)

    def views(self, node: Node) -> Sequence[Space]:
        spaces = super().views(node)
        if self.axis(node) != _CHANNELS:
            return spaces
        return [
            replace(space, axes=(*space.axes[:2], Axis("h", space.axes[2].size), space.axes[3])) for space in spaces
        ]

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        boxes = super().reads(node, space, tile)
        if self.axis(node) != _CHANNELS:
            return boxes
        start, stop = tile.range("h")
        shapes = [box.shape for box in boxes if box is not None]
        return [Box((0, 0, start, 0), (n, c, stop - start, w)) for n, c, _, w in shapes]

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        axis = self.axis(node) if in_dimensions(node.result_type, placed.result) else _COLUMNS
        place, chip = [0, 0, 0, 0], self.target
        for local in placed.operands:
            assert local is not None
            copy(
                asm,
                local.shape,
                part_of(local, (0, 0, 0, 0), target=chip),
                part_of(placed.result, _four(place), target=chip),
            )
            place[axis] += local.shape[axis]


class LocalSliceKernel(LocalMoveKernel):
    """Slices with constant steps: unit steps in batches and channels, and few elements in reverse order."""

    def axis(self, node: Node) -> int | None:
        pairs = zip(node.operand_types[0].dims, node.result_type.dims, strict=True)
        changed = [axis for axis, (before, after) in enumerate(pairs) if before != after]
        return changed[0] if len(changed) == 1 else None

    def serves(self, node: Node) -> bool:
        steps, dims = node.op.steps, node.result_type.dims
        if not super().serves(node) or any(step != 1 for step in steps[: _CHANNELS + 1]):
            return False
        return math.prod(extent for step, extent in zip(steps, dims, strict=True) if step < 0) <= _MOST_BACKWARDS

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        x, result = placed.operand(0), placed.result
        ranges = slice_ranges(node.operand_types[0].dims, node.op.offset, node.op.steps, node.result_type.dims)
        if not in_dimensions(node.operand_types[0], x):
            ranges = [slice(0, 1, 1)] * _COLUMNS + [ranges[-1]]
        missing = 4 - len(ranges)
        start = [*(one.start for one in ranges), *[0] * missing]
        steps = [*(one.step or 1 for one in ranges), *[1] * missing]
        backwards = [axis for axis, step in enumerate(steps) if step < 0]
        shape = _four([1 if axis in backwards else extent for axis, extent in enumerate(result.shape)])
        kept = _four([max(step, 1) for step in steps])
        for place in itertools.product(*(range(result.shape[axis]) for axis in backwards)):
            source, target = [*start], [0, 0, 0, 0]
            for axis, index in zip(backwards, place, strict=True):
                source[axis] += index * steps[axis]
                target[axis] = index
            start_of = part_of(x, _four(source), kept, self.target)
            copy(asm, shape, start_of, part_of(result, _four(target), target=self.target))


def in_dimensions(type_: TensorType, local: LocalTensor) -> bool:
    """True when n, c, h and w are the tensor's dimensions, and not blocks of its rows. The columns of a
    four-dimensional tensor are equal in both views.
    """
    return local.shape[3] == elementwise_view(type_.dims)[3]


def part_of(local: LocalTensor, start: Shape4, steps: Shape4 = (1, 1, 1, 1), target: Target = BM1684X) -> Operand:
    """The part of a tensor that starts at `start`, possibly in another lane."""
    whole = operand(local)
    n, slot, h, w = whole.strides(local.shape, target)
    slots, lane = divmod(start[1], target.lanes)
    items = start[0] * n + slots * slot + start[2] * h + start[3] * w
    address = whole.address + items * whole.dtype.bytes + lane * target.lane_bytes
    return Operand(address, whole.dtype, (n, slot, h * steps[2], w * steps[3]))


def copy(asm: Bm1684xAssembler, shape: Shape4, source: Operand, target: Operand) -> None:
    """Copy `shape` elements: within lanes by an arithmetic command, between lanes by the fastest command."""
    chip = asm.target
    if source.address // chip.lane_bytes == target.address // chip.lane_bytes:
        arithmetic(asm, ArithmeticOp.COPY, shape, target, source)
        return
    choices: list[list[Bm1684xInstruction]] = [[_transfer(shape, source, target, chip)]]
    rows = [Operand(0, source.dtype).strides((1, *shape[1:]), chip)[1:]] * 2
    if [_steps(operand)[1:] for operand in (source, target)] == rows:
        choices.append([_lane_copy(shape, source, target, index) for index in range(shape[0])])
    for instruction in min(choices, key=lambda instructions: sum(cycles(one.on(chip)) for one in instructions)):
        asm.record(instruction)


def _transfer(shape: Shape4, source: Operand, target: Operand, chip: Target) -> Bm1684xInstruction:
    return TensorCopy(
        source=chip.lmem_base + source.address,
        destination=chip.lmem_base + target.address,
        shape=shape,
        dtype=source.dtype,
        source_strides=_steps(source),
        destination_strides=_steps(target),
    )


def _lane_copy(shape: Shape4, source: Operand, target: Operand, batch: int) -> Bm1684xInstruction:
    return LaneTransfer(
        operation=TransferOp.COPY,
        shape=(1, *shape[1:]),
        dtype=source.dtype,
        source=source.address + batch * _steps(source)[0] * source.dtype.bytes,
        result=target.address + batch * _steps(target)[0] * target.dtype.bytes,
    )


def _steps(part: Operand) -> Shape4:
    assert isinstance(part.layout, tuple)
    return part.layout


def _four(values: Sequence[int]) -> Shape4:
    n, c, h, w = values
    return (n, c, h, w)
