"""Ops that only move data, by strided copies in DDR; bytes are exchanged in local memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tpuc.api import (
    KernelChoice,
    Move,
    MoveKernel,
    Node,
    Phase,
    PlacedTile,
    ScalarType,
    Space,
    TileKernel,
    View,
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
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, Target
from tpuc_cv18.kernels.common import LaneKernel
from tpuc_cv18.kernels.copies import moves_of
from tpuc_cv18.kernels.picks import PickKernel
from tpuc_cv18.operands import MAX_DMA_EXTENT, MAX_EXTENT, operand


class DdrCopyKernel(CopyKernel):
    """Base: copies of any rank in DDR."""

    def moves_of(self, copy: Copy, element: ScalarType) -> Iterable[Move]:
        return moves_of(copy, element.bits // 8)


class PermuteKernel(DdrCopyKernel):
    """A copy with permuted source strides."""

    def copies(self, node: Node) -> Sequence[Copy]:
        return permuted_copies(node)


class ExchangeKernel(LaneKernel[tpu.Permute]):
    """Bytes (n, c, w) to (n, w, c): the store exchanges channels and columns, which go as rows of many elements."""

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


class AnyPermuteKernel(KernelChoice[tpu.Permute]):
    """An exchange of two dimensions where it is one; strided copies otherwise."""

    def __init__(self, target: Target) -> None:
        self._exchange, self._copies = ExchangeKernel(target), PermuteKernel()

    def kernel(self, node: Node) -> TileKernel[Any, Cv18Assembler] | MoveKernel[Any]:
        return self._exchange if _exchange(node) is not None else self._copies


class ConcatKernel(DdrCopyKernel):
    """Each operand becomes its part of the result."""

    def refuse(self, node: Node) -> str | None:
        return concatenation_refusal(node) or super().refuse(node)

    def copies(self, node: Node) -> Sequence[Copy]:
        return concatenated_copies(node)


class SliceKernel(DdrCopyKernel):
    """Regular places of the operand; a step backwards is one copy per element of that dimension."""

    def copies(self, node: Node) -> Sequence[Copy]:
        return sliced_copies(node)


class AnySliceKernel(KernelChoice[tpu.Slice]):
    """Single bytes of many places in local memory; strided copies otherwise."""

    def __init__(self, target: Target) -> None:
        self._pick, self._copies = PickKernel(target), SliceKernel()

    def kernel(self, node: Node) -> TileKernel[Any, Cv18Assembler] | MoveKernel[Any]:
        return self._pick if self._pick.serves(node) else self._copies
