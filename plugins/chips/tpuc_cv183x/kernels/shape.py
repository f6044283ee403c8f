"""Ops that only move data: reshapes are aliases, the others strided copies in DDR."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tpuc.api import KernelChoice, Layouts, Move, MoveKernel, Node, Phase, PlacedTile, Space, TileKernel, View
from tpuc_ops.shapes import positive_axis, slice_ranges
from tpuc_ops.tpu.permute import Permute

from tpuc_cv183x.assembler import Cv183xAssembler
from tpuc_cv183x.isa import Arithmetic, ArithmeticOp
from tpuc_cv183x.kernels.common import parallel_axes
from tpuc_cv183x.kernels.copies import MAX_COPIES, Copy, dense_strides, moves_of
from tpuc_cv183x.operands import MAX_DMA_EXTENT, MAX_EXTENT, operand


class AliasKernel(MoveKernel[Any]):
    """The result is the operand's bytes under another shape."""

    def is_alias(self, node: Node) -> bool:
        return True


class CopyKernel(MoveKernel[Any]):
    """Base: the result is made of copies and fills of any rank."""

    def copies(self, node: Node) -> Sequence[Copy]:
        """The parts of the result."""
        raise NotImplementedError

    def refuse(self, node: Node) -> str | None:
        count = len(self.moves(node))
        if count > MAX_COPIES:
            return f"at most {MAX_COPIES} copies, this one needs {count}"
        return None

    def moves(self, node: Node) -> Sequence[Move]:
        size = node.result_type.storage.bits // 8
        return [move for copy in self.copies(node) for move in moves_of(copy, size)]


class PermuteKernel(CopyKernel):
    """A copy with permuted source strides."""

    def copies(self, node: Node) -> Sequence[Copy]:
        strides = dense_strides(node.operand_types[0].dims)
        order: tuple[int, ...] = node.op.order
        source = tuple(strides[axis] for axis in order)
        dims = node.result_type.dims
        return (Copy(0, dims, 0, source, 0, dense_strides(dims)),)


class ExchangeKernel(TileKernel[Permute]):
    """Bytes (n, c, w) to (n, w, c): the store exchanges channels and columns, which go as rows of many elements."""

    def space(self, node: Node) -> Space:
        exchange = _exchange(node)
        assert exchange is not None
        n, c, w = exchange
        source, result = View((n, c, 1, w)), View((n, c, 1, w), (c * w, 1, c, c))
        return Space(parallel_axes(source.shape), (source,), (result,))

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv183xAssembler) -> None:
        result = placed.result
        asm.record(
            Arithmetic(
                operation=ArithmeticOp.COPY,
                shape=result.shape,
                result=operand(result),
                left=operand(placed.operand(0)),
            )
        )


def _exchange(node: Node) -> tuple[int, int, int] | None:
    """(n, c, w) when the permutation is (n, c, w) to (n, w, c) of bytes, with extents that fit size fields."""
    dims, order = node.operand_types[0].dims, [axis for axis in node.op.order if node.operand_types[0].dims[axis] > 1]
    blocks: list[list[int]] = []
    for axis in order:
        if blocks and not any(blocks[-1][-1] < other < axis for other in order) and blocks[-1][-1] < axis:
            blocks[-1].append(axis)
        else:
            blocks.append([axis])
    lead = blocks.pop(0) if len(blocks) == 3 and blocks[0] < min(blocks[1:]) else []
    if len(blocks) != 2 or blocks[0] < blocks[1] or node.result_type.storage.bits != 8:
        return None
    n, w, c = (math.prod(dims[axis] for axis in block) for block in (lead, *blocks))
    return (n, c, w) if c <= MAX_EXTENT and w <= MAX_DMA_EXTENT else None


class AnyPermuteKernel(KernelChoice[Permute]):
    """An exchange of two dimensions where it is one; strided copies otherwise."""

    def __init__(self) -> None:
        self._exchange, self._copies = ExchangeKernel(), PermuteKernel()

    def kernel(self, node: Node) -> TileKernel[Any] | MoveKernel[Any]:
        return self._exchange if _exchange(node) is not None else self._copies


class ConcatKernel(CopyKernel):
    """Each operand becomes its part of the result."""

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
