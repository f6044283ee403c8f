"""Ops that only move data, as strided copies in DDR; bytes are transposed through local memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tpuc.api import (
    Axis,
    Box,
    KernelChoice,
    Move,
    MoveKernel,
    Node,
    Phase,
    PlacedTile,
    ScalarType,
    Shape4,
    Space,
    Tile,
    TileKernel,
    View,
    elementwise_view,
)
from tpuc_chip_parts.copies import (
    Copy,
    CopyKernel,
    concatenated_copies,
    concatenation_refusal,
    permuted_copies,
    sliced_copies,
)
from tpuc_ops import tpu

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, DType, Operand, Target
from tpuc_cv18.kernels.common import LaneKernel
from tpuc_cv18.kernels.copies import moves_of
from tpuc_cv18.kernels.picks import ColumnKernel, PickKernel
from tpuc_cv18.operands import MAX_DMA_EXTENT, MAX_EXTENT, byte_strides, operand

_BYTE_BITS = 8
_WIDEST_ROW = 512
"""Maximum number of pixels in a row that are transposed at once; each takes 16 bytes of local memory."""


class DdrCopyKernel(CopyKernel):
    """Base of copies of any rank in DDR."""

    def moves_of(self, copy: Copy, element: ScalarType) -> Iterable[Move]:
        return moves_of(copy, element.bits // 8)


class PermuteKernel(DdrCopyKernel):
    """A copy with permuted source strides."""

    def copies(self, node: Node) -> Sequence[Copy]:
        return permuted_copies(node)


class ExchangeKernel(LaneKernel[tpu.Permute]):
    """Permutes bytes (n, c, w) to (n, w, c): loads rows of many elements, and the store exchanges channels and
    columns.
    """

    def space(self, node: Node) -> Space:
        exchange = _exchange(node)
        assert exchange is not None
        n, c, w = exchange
        source, result = View((n, c, 1, w)), View((n, c, 1, w), (c * w, 1, c, c))
        return Space(self.lanes.parallel_axes(source.shape), (source,), (result,))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        result = placed.result
        asm.record(
            Arithmetic(
                operation=ArithmeticOp.COPY,
                shape=result.shape,
                result=operand(result),
                left=operand(placed.operand(0)),
            )
        )


class PlacesKernel(LaneKernel[tpu.Permute]):
    """Permutes floats (c, h, w) to (h, w, c): pixels become batches in local memory, so that the store finds the
    channels of a pixel contiguous. A copy within DDR would make each element a separate run. Whole rows are read, as
    the preceding op leaves them.
    """

    def space(self, node: Node) -> Space:
        _, c, h, w = _image(node)
        axes = (
            Axis("n", h * w, granularity=w, minimum=w, limit=max(w, MAX_EXTENT // w * w)),
            Axis("c", c, granularity=self.lanes.count, limit=MAX_EXTENT),
        )
        return Space(axes, (View((1, c, h, w)),), (View((h * w, c, 1, 1)),))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        width = _image(node)[3]
        (n0, n1), (c0, c1) = tile.range("n"), tile.range("c")
        return [Box((0, c0, n0 // width, 0), (1, c1 - c0, (n1 - n0) // width, width))]

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        source, result = placed.operand(0), placed.result
        size = source.element.bits // _BYTE_BITS
        _, c, h, w = source.shape
        _, group, row, _ = byte_strides(source, self.target)
        place, to_group, *_ = byte_strides(result, self.target)
        is_dense = row == w * size and h * w <= MAX_EXTENT
        asm.record(
            Arithmetic(
                operation=ArithmeticOp.COPY,
                shape=(1, c, h * w, size) if is_dense else (h, c, w, size),
                result=Operand(result.address, DType.UINT8, (w * place, to_group, place, 1)),
                left=Operand(source.address, DType.UINT8, (row, group, size, 1)),
            )
        )


def _image(node: Node) -> Shape4:
    """The view that an exchange of pixels and channels reads, with the operand's rows where they are short."""
    exchange = _exchange(node)
    assert exchange is not None
    n, c, w = exchange
    shape = elementwise_view(node.operand_types[0].dims)
    has_rows = shape[:2] == (n, c) and shape[3] <= _WIDEST_ROW
    return shape if has_rows else (n, c, w, 1)


def _exchange(node: Node) -> tuple[int, int, int] | None:
    """(n, c, w) when the permutation is (n, c, w) to (n, w, c) with extents that fit the size fields, else None."""
    dims, order = node.operand_types[0].dims, [axis for axis in node.op.order if node.operand_types[0].dims[axis] > 1]
    blocks: list[list[int]] = []
    for axis in order:
        if blocks and not any(blocks[-1][-1] < other < axis for other in order) and blocks[-1][-1] < axis:
            blocks[-1].append(axis)
        else:
            blocks.append([axis])
    lead = blocks.pop(0) if len(blocks) == 3 and blocks[0] < min(blocks[1:]) else []
    if len(blocks) != 2 or blocks[0] < blocks[1]:
        return None
    n, w, c = (math.prod(dims[axis] for axis in block) for block in (lead, *blocks))
    return (n, c, w) if c <= MAX_EXTENT and w <= MAX_DMA_EXTENT else None


class AnyPermuteKernel(KernelChoice[tpu.Permute]):
    """Chooses an exchange of two dimensions where possible (for floats only without batches), else strided copies."""

    def __init__(self, target: Target) -> None:
        self._exchange, self._places, self._copies = ExchangeKernel(target), PlacesKernel(target), PermuteKernel()

    def kernel(self, node: Node) -> TileKernel[Any, Cv18Assembler] | MoveKernel[Any]:
        exchange, element = _exchange(node), node.result_type.storage
        if exchange is not None and element.bits == _BYTE_BITS:
            return self._exchange
        return self._places if exchange is not None and exchange[0] == 1 and element.is_float else self._copies


class ConcatKernel(DdrCopyKernel):
    """Copies each operand to its part of the result."""

    def refuse(self, node: Node) -> str | None:
        return concatenation_refusal(node) or super().refuse(node)

    def copies(self, node: Node) -> Sequence[Copy]:
        return concatenated_copies(node)


class SliceKernel(DdrCopyKernel):
    """A strided copy from the operand; a negative step takes one copy per element of that dimension."""

    def copies(self, node: Node) -> Sequence[Copy]:
        return sliced_copies(node)


class AnySliceKernel(KernelChoice[tpu.Slice]):
    """Chooses deinterleaving in local memory for interleaved bytes, else strided copies."""

    def __init__(self, target: Target) -> None:
        self._picks, self._copies = (PickKernel(target), ColumnKernel(target)), SliceKernel()

    def kernel(self, node: Node) -> TileKernel[Any, Cv18Assembler] | MoveKernel[Any]:
        return next((kernel for kernel in self._picks if kernel.serves(node)), self._copies)
