"""Ops that only move data, as strided copies in DDR."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from tpuc.api import Move, Node, ScalarType, TileKernel
from tpuc_chip_parts.copies import (
    Copy,
    CopyKernel,
    concatenated_copies,
    concatenation_refusal,
    padded_copies,
    permuted_copies,
    sliced_copies,
)

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.kernels.common import OfChip
from tpuc_bm1684x.kernels.copies import moves_of
from tpuc_bm1684x.kernels.local_moves import LocalConcatKernel, LocalMoveKernel, LocalSliceKernel
from tpuc_bm1684x.kernels.local_permute import LocalPermuteKernel


class DdrCopyKernel(OfChip, CopyKernel):
    """Base of copies of any rank in DDR."""

    in_local_memory: ClassVar[type[LocalMoveKernel] | None] = None

    def __init__(self, target: Target = BM1684X) -> None:
        super().__init__(target)
        self._local = None if self.in_local_memory is None else self.in_local_memory(target)

    def local(self, node: Node) -> TileKernel[Any, Bm1684xAssembler] | None:
        return self._local if self._local and self._local.serves(node) else None

    def moves_of(self, copy: Copy, element: ScalarType) -> Iterable[Move]:
        return moves_of(copy, element)


class PermuteKernel(DdrCopyKernel):
    """A copy with permuted source strides."""

    in_local_memory = LocalPermuteKernel

    def copies(self, node: Node) -> Sequence[Copy]:
        return permuted_copies(node)


class ConcatKernel(DdrCopyKernel):
    """Copies each operand to its part of the result."""

    in_local_memory = LocalConcatKernel

    def refuse(self, node: Node) -> str | None:
        return concatenation_refusal(node) or super().refuse(node)

    def copies(self, node: Node) -> Sequence[Copy]:
        return concatenated_copies(node)


class SliceKernel(DdrCopyKernel):
    """A strided copy from the operand; a negative step takes one copy per element of that dimension."""

    in_local_memory = LocalSliceKernel

    def copies(self, node: Node) -> Sequence[Copy]:
        return sliced_copies(node)


class PadKernel(DdrCopyKernel):
    """Copies the operand into place and fills each border separately, so that no byte is written twice."""

    def refuse(self, node: Node) -> str | None:
        if node.op.mode != "constant":
            return f"only mode constant, this one is {node.op.mode}"
        return super().refuse(node)

    def copies(self, node: Node) -> Sequence[Copy]:
        return padded_copies(node)
