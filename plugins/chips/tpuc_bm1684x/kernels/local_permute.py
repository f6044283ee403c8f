"""Split and merge of attention heads in local memory: each row keeps its lane, so no element leaves it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tpuc.api import Candidate, Node, Phase, PlacedTile, View

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import Operand
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.kernels.common import in_spaces
from tpuc_bm1684x.kernels.local_moves import LocalMoveKernel, copy
from tpuc_bm1684x.operands import MAX_EXTENT, operand


class _Heads(NamedTuple):
    """Extents of an exchange between (batches, rows, heads, width) and (batches, heads, rows, width)."""

    batches: int
    rows: int
    heads: int
    width: int
    splits: bool
    """The operand has the heads of a row side by side."""

    @property
    def joined(self) -> View:
        """Each row in its own lane, with all its heads."""
        return View((self.batches, self.rows, self.heads * self.width, 1))

    @property
    def apart(self) -> View:
        """One matrix per head, each row in its own lane."""
        return View((self.batches * self.heads, self.rows, self.width, 1))


class LocalPermuteKernel(LocalMoveKernel):
    """Exchanges two neighboring dimensions before the last one or more: rows of heads become heads of rows, or back.
    Both sides have the views of row-wise products.
    """

    def serves(self, node: Node) -> bool:
        return keeps_lanes(node.operand_types[0].dims, node.op.order, self.target)

    def kernels(self, node: Node) -> Sequence[Candidate]:
        heads = _heads(node.operand_types[0].dims, node.op.order)
        assert heads is not None
        sides = (heads.joined, heads.apart) if heads.splits else (heads.apart, heads.joined)
        return in_spaces(self, [self._whole(sides)])

    def axis(self, node: Node) -> int | None:
        return None

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        heads = _heads(node.operand_types[0].dims, node.op.order)
        assert heads is not None
        x, result = placed.operand(0), placed.result
        joined, apart = (x, result) if heads.splits else (result, x)
        batch, slot, _, _ = operand(joined).strides(joined.shape, self.target)
        matrix, part, _, _ = operand(apart).strides(apart.shape, self.target)
        lanes = self.target.lanes
        slots = -(-heads.rows // lanes)
        if heads.batches <= slots:  # all slots of lanes in one command per batch, or all batches in one per slot
            places = [(index * batch, index * heads.heads * matrix, heads.rows) for index in range(heads.batches)]
            shape, steps = (heads.heads, 1), ((heads.width, slot, heads.width), (matrix, part, heads.width))
        else:
            rows = [min(lanes, heads.rows - index * lanes) for index in range(slots)]
            places = [(index * slot, index * part, count) for index, count in enumerate(rows)]
            shape = (heads.batches, heads.heads)
            steps = ((batch, slot, heads.width), (heads.heads * matrix, part, matrix))
        for at_joined, at_apart, rows in places:
            ends = [
                Operand(whole.address + at * whole.dtype.bytes, whole.dtype, (*step, 1))
                for whole, at, step in zip((operand(joined), operand(apart)), (at_joined, at_apart), steps, strict=True)
            ]
            source, target = ends if heads.splits else reversed(ends)
            copy(asm, (shape[0], rows, shape[1], heads.width), source, target)


def keeps_lanes(dims: Sequence[int], order: Sequence[int], target: Target = BM1684X) -> bool:
    """True for a permutation that local memory performs without moving an element to another lane."""
    found = _heads(dims, order)
    if found is None or found.rows < target.lanes // 2:
        return False
    return max(*found.joined.shape, *found.apart.shape) <= MAX_EXTENT


def _heads(dims: Sequence[int], order: Sequence[int]) -> _Heads | None:
    """The exchange that a permutation performs; None if it is another one."""
    kept = [axis for axis in order if dims[axis] > 1]
    places = sorted(kept)
    runs: list[list[int]] = []
    for axis in kept:  # dimensions that stay neighbors count as one
        if runs and places.index(axis) == places.index(runs[-1][-1]) + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    numbers = {run[0]: index for index, run in enumerate(sorted(runs))}
    pattern = [numbers[run[0]] for run in runs]
    extents = [math.prod(dims[axis] for axis in run) for run in sorted(runs)]
    if pattern == [1, 0, 2]:
        batches, (first, second, width) = 1, extents
    elif pattern == [0, 2, 1, 3]:
        batches, first, second, width = extents
    else:
        return None
    if first >= second:
        return _Heads(batches, first, second, width, True)
    return _Heads(batches, second, first, width, False)
