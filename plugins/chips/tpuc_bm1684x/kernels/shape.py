"""Ops that only move data: reshapes are aliases, the others strided copies in DDR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tpuc.api import Move, MoveKernel, Node, TileKernel
from tpuc_ops.shapes import positive_axis, slice_ranges

from tpuc_bm1684x.kernels.copies import MAX_COPIES, Copy, dense_strides, moves_of
from tpuc_bm1684x.kernels.local_moves import LocalConcatKernel, LocalMoveKernel, LocalSliceKernel
from tpuc_bm1684x.operands import dtype_of

__all__ = ["AliasKernel", "ConcatKernel", "PadKernel", "PermuteKernel", "SliceKernel"]


class AliasKernel(MoveKernel[Any]):
    """The result is the operand's bytes under another shape."""

    def is_alias(self, node: Node) -> bool:
        return True


class CopyKernel(MoveKernel[Any]):
    """Base: the result is made of copies and fills of any rank."""

    in_local_memory: ClassVar[LocalMoveKernel | None] = None

    def local(self, node: Node) -> TileKernel[Any] | None:
        return self.in_local_memory if self.in_local_memory and self.in_local_memory.serves(node) else None

    def copies(self, node: Node) -> Sequence[Copy]:
        """The parts of the result."""
        raise NotImplementedError

    def refuse(self, node: Node) -> str | None:
        count = len(self.moves(node))
        if count > MAX_COPIES:
            return f"at most {MAX_COPIES} copies, this one needs {count}"
        return None

    def moves(self, node: Node) -> Sequence[Move]:
        dtype = dtype_of(node.result_type.storage)
        return [move for copy in self.copies(node) for move in moves_of(copy, dtype)]


class PermuteKernel(CopyKernel):
    """A copy with permuted source strides."""

    def copies(self, node: Node) -> Sequence[Copy]:
        strides = dense_strides(node.operand_types[0].dims)
        order: tuple[int, ...] = node.op.order
        source = tuple(strides[axis] for axis in order)
        dims = node.result_type.dims
        return (Copy(0, dims, 0, source, 0, dense_strides(dims)),)


class ConcatKernel(CopyKernel):
    """Each operand becomes its part of the result."""

    in_local_memory = LocalConcatKernel()

    def refuse(self, node: Node) -> str | None:
        if node.op.multipliers:
            return "operands are in the result's scale already, these have multipliers"
        if node.op.do_relu:
            return "a relu has no kernel here"
        return super().refuse(node)

    def copies(self, node: Node) -> Sequence[Copy]:
        dims = node.result_type.dims
        target = dense_strides(dims)
        axis = positive_axis(node.op.axis, len(dims))
        parts: list[Copy] = []
        at = 0
        for index, type_ in enumerate(node.operand_types):
            parts.append(Copy(index, type_.dims, 0, dense_strides(type_.dims), at * target[axis], target))
            at += type_.dims[axis]
        return parts


class SliceKernel(CopyKernel):
    """Regular places of the operand; a step backwards is one copy per element of that dimension."""

    in_local_memory = LocalSliceKernel()

    def copies(self, node: Node) -> Sequence[Copy]:
        source = node.operand_types[0].dims
        dims = node.result_type.dims
        strides, target = dense_strides(source), dense_strides(dims)
        ranges = slice_ranges(source, node.op.offset, node.op.steps, dims)
        start = sum(r.start * stride for r, stride in zip(ranges, strides, strict=True))
        steps = tuple((r.step or 1) * stride for r, stride in zip(ranges, strides, strict=True))
        whole = [Copy(0, dims, start, steps, 0, target)]
        for axis, step in enumerate(steps):
            if step < 0 and dims[axis] > 1:
                whole = [part for copy in whole for part in copy.split(axis)]
        return whole


class PadKernel(CopyKernel):
    """The operand is copied into place; every border is filled by itself, so nothing is written twice."""

    def refuse(self, node: Node) -> str | None:
        if node.op.mode != "constant":
            return f"only mode constant, this one is {node.op.mode}"
        return super().refuse(node)

    def copies(self, node: Node) -> Sequence[Copy]:
        dims, source = node.result_type.dims, node.operand_types[0].dims
        rank = len(dims)
        before, after = node.op.paddings[:rank], node.op.paddings[rank:]
        target, strides = dense_strides(dims), dense_strides(source)
        kept = tuple(extent + min(b, 0) + min(a, 0) for extent, b, a in zip(source, before, after, strict=True))
        first = sum(max(-b, 0) * stride for b, stride in zip(before, strides, strict=True))
        start = [max(b, 0) for b in before]
        parts = [Copy(0, kept, first, strides, _offset(start, target), target)]
        # What is left of the result shrinks to the operand's place, dimension by dimension.
        low, extent = [0] * rank, list(dims)
        for axis in range(rank):
            for at, size in ((0, max(before[axis], 0)), (start[axis] + kept[axis], max(after[axis], 0))):
                if size:
                    place = [*low[:axis], at, *low[axis + 1 :]]
                    shape = (*extent[:axis], size, *extent[axis + 1 :])
                    parts.append(Copy(0, shape, 0, (0,) * rank, _offset(place, target), target, node.op.val))
            low[axis], extent[axis] = start[axis], kept[axis]
        return parts


def _offset(place: Sequence[int], strides: Sequence[int]) -> int:
    return sum(index * stride for index, stride in zip(place, strides, strict=True))
