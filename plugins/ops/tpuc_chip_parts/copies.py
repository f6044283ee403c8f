"""Kernels of ops that only move data: strided copies of any rank, split into the chip's own moves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tpuc.api import Move, MoveKernel, Node, ScalarType, Shape4
from tpuc_ops.shapes import positive_axis, slice_ranges

Axes: TypeAlias = "list[tuple[int, int, int]]"
"""Extent, source stride and target stride, outermost first."""

MAX_COPIES = 1024
"""Beyond this another op should be used: a command costs about as much as moving 1 to 4 KiB."""


@dataclass(frozen=True)
class Copy:
    """Like `Move`, with any rank."""

    operand: int
    shape: tuple[int, ...]
    source_offset: int
    source_strides: tuple[int, ...]
    target_offset: int
    target_strides: tuple[int, ...]
    fill: float | None = None

    def split(self, axis: int) -> list[Copy]:
        """One copy per index of a dimension."""
        shape = (*self.shape[:axis], 1, *self.shape[axis + 1 :])
        return [
            dataclasses.replace(
                self,
                shape=shape,
                source_offset=self.source_offset + index * self.source_strides[axis],
                target_offset=self.target_offset + index * self.target_strides[axis],
            )
            for index in range(self.shape[axis])
        ]

    def forwards(self) -> list[Copy]:
        """Return the same data as copies with nonnegative source strides: one per element of each reversed
        dimension.
        """
        parts: list[Copy] = [self]
        for axis, step in enumerate(self.source_strides):
            if step < 0 and self.shape[axis] > 1:
                parts = [part for copy in parts for part in copy.split(axis)]
        return parts

    def axes(self) -> Axes:
        """The dimensions with more than one element; adjacent ones that form one regular dimension are merged."""
        merged: Axes = []
        for extent, source, target in zip(self.shape, self.source_strides, self.target_strides, strict=True):
            if extent <= 1:
                continue
            if merged:
                outer, outer_source, outer_target = merged[-1]
                if outer_source == source * extent and outer_target == target * extent:
                    merged[-1] = (outer * extent, source, target)
                    continue
            merged.append((extent, source, target))
        return merged


def within_field(axes: Axes, limit: int) -> Iterator[tuple[Axes, int, int]]:
    """Parts of a copy with extents of at most `limit`, each with its offsets on both sides."""
    far = next((index for index, (extent, _, _) in enumerate(axes) if extent > limit), None)
    if far is None:
        yield axes, 0, 0
        return
    extent, source, target = axes[far]
    for start in range(0, extent, limit):
        near = (min(limit, extent - start), source, target)
        for part, source_start, target_start in within_field([*axes[:far], near, *axes[far + 1 :]], limit):
            yield part, source_start + start * source, target_start + start * target


def four(axes: Axes, item: int) -> Shape4:
    """Extents, source strides or target strides of four axes."""
    n, c, h, w = (axis[item] for axis in axes)
    return (n, c, h, w)


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides."""
    strides = [1] * len(shape)
    for index in range(len(shape) - 2, -1, -1):
        strides[index] = strides[index + 1] * shape[index + 1]
    return tuple(strides)


def offset_of(place: Sequence[int], strides: Sequence[int]) -> int:
    """The offset of an element."""
    return sum(index * stride for index, stride in zip(place, strides, strict=True))


class AliasKernel(MoveKernel[Any]):
    """The result has the operand's bytes with another shape."""

    def is_alias(self, node: Node) -> bool:
        return True


class CopyKernel(MoveKernel[Any]):
    """Base: the result consists of copies and fills of any rank."""

    def copies(self, node: Node) -> Sequence[Copy]:
        """The parts of the result."""
        raise NotImplementedError

    def moves_of(self, copy: Copy, element: ScalarType) -> Iterable[Move]:
        """A copy as moves of the chip."""
        raise NotImplementedError

    def refuse(self, node: Node) -> str | None:
        count = len(self.moves(node))
        if count > MAX_COPIES:
            return f"at most {MAX_COPIES} copies, this one needs {count}"
        return None

    def moves(self, node: Node) -> Sequence[Move]:
        return [move for copy in self.copies(node) for move in self.moves_of(copy, node.result_type.storage)]


def permuted_copies(node: Node) -> list[Copy]:
    """A Permute: a copy with permuted source strides."""
    strides = dense_strides(node.operand_types[0].dims)
    order: tuple[int, ...] = node.op.order
    dims = node.result_type.dims
    return [Copy(0, dims, 0, tuple(strides[axis] for axis in order), 0, dense_strides(dims))]


def concatenated_copies(node: Node) -> list[Copy]:
    """A Concat: each operand becomes its part of the result."""
    dims = node.result_type.dims
    target = dense_strides(dims)
    axis = positive_axis(node.op.axis, len(dims))
    parts: list[Copy] = []
    at = 0
    for index, type_ in enumerate(node.operand_types):
        parts.append(Copy(index, type_.dims, 0, dense_strides(type_.dims), at * target[axis], target))
        at += type_.dims[axis]
    return parts


def concatenation_refusal(node: Node) -> str | None:
    """Return why a Concat cannot be expressed by copies; None if it can."""
    if node.op.multipliers:
        return "operands must already have the result's scale, these have multipliers"
    if node.op.do_relu:
        return "a relu has no kernel here"
    return None


def sliced_copies(node: Node) -> list[Copy]:
    """A Slice: regularly spaced elements of the operand."""
    source, dims = node.operand_types[0].dims, node.result_type.dims
    strides = dense_strides(source)
    ranges = slice_ranges(source, node.op.offset, node.op.steps, dims)
    start = offset_of([r.start for r in ranges], strides)
    steps = tuple((r.step or 1) * stride for r, stride in zip(ranges, strides, strict=True))
    return Copy(0, dims, start, steps, 0, dense_strides(dims)).forwards()


def padded_copies(node: Node) -> list[Copy]:
    """A Pad by a constant: the operand is copied, and every border filled; nothing is written twice."""
    dims, source = node.result_type.dims, node.operand_types[0].dims
    rank = len(dims)
    before, after = node.op.paddings[:rank], node.op.paddings[rank:]
    target, strides = dense_strides(dims), dense_strides(source)
    kept = tuple(extent + min(b, 0) + min(a, 0) for extent, b, a in zip(source, before, after, strict=True))
    first = offset_of([max(-b, 0) for b in before], strides)
    start = [max(b, 0) for b in before]
    parts = [Copy(0, kept, first, strides, offset_of(start, target), target)]
    # What is left of the result shrinks to the operand's place, dimension by dimension.
    low, extent = [0] * rank, list(dims)
    for axis in range(rank):
        for at, size in ((0, max(before[axis], 0)), (start[axis] + kept[axis], max(after[axis], 0))):
            if size:
                place = [*low[:axis], at, *low[axis + 1 :]]
                shape = (*extent[:axis], size, *extent[axis + 1 :])
                parts.append(Copy(0, shape, 0, (0,) * rank, offset_of(place, target), target, node.op.val))
        low[axis], extent[axis] = start[axis], kept[axis]
    return parts
