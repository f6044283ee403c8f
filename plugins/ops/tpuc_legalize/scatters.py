"""Scatters: a selection by constant positions, or sums of updates, each marked by 1 at its position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from tpuc.api import LoweringNode, OpT, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.shapes import positive_axis

from tpuc_legalize.composer import MOVES, Composed, Composer, Part, largest_whole, row_sums, viewed
from tpuc_legalize.gathers import row_numbers, turned
from tpuc_legalize.table import TABLE

_MOST_MARKS = 1 << 22
"""Largest number of marks of one scatter: 16 MiB in float32. Not measured."""
_MOST_RUNS = 256
"""Largest number of parts that a selection by constants copies; more are marked. Not measured."""
_EXTREMES = {"max": (top.Max, "ReduceMax", -3.0e38), "min": (top.Min, "ReduceMin", 3.0e38)}
"""The op that combines two values, the reduction of several, and the number that changes no result."""


class Selection(NamedTuple):
    """Of `before` blocks, each of rows of x followed by rows of updates, the row for every row of the result."""

    sources: Array
    before: int
    width: int

    @property
    def runs(self) -> int:
        """Number of parts of consecutive rows."""
        return int(np.count_nonzero(np.diff(self.sources) != 1)) + 1


class Scattering(Composed[OpT]):
    """Base of both scatters."""

    into = (
        *MOVES,
        *(top.Add, top.Compare, top.CompareConst, top.Concat, top.Gather, top.MatMul, top.Max, top.Min, top.Mul),
        *(top.MulConst, top.Reduce, top.Where),
    )

    def rows(self, node: LoweringNode) -> tuple[int, int, int]:
        """Number of places that an index selects from, of updates for them, and of groups of such places."""
        raise NotImplementedError

    def selection(self, node: LoweringNode) -> Selection | None:
        """The selection that constant indices amount to; None if they are computed."""
        raise NotImplementedError

    def refuse(self, node: LoweringNode) -> str | None:
        places, updates, groups = self.rows(node)
        if node.op.reduction == "mul":
            return "reduction none, add, max, or min, this one is mul"
        if node.constants[1] is None and places > largest_whole(node):
            return (
                f"computed indices can select from at most {largest_whole(node)} places, here {places}; select them "
                "outside the network"
            )
        marks = places * updates * groups
        if marks > _MOST_MARKS and self.selected(node) is None:
            return f"{marks} pairs of a place and an update are too many; update outside the network"
        return None

    def selected(self, node: LoweringNode) -> Selection | None:
        """The selection, if updates replace elements and it has few parts."""
        selection = self.selection(node) if node.op.reduction == "none" else None
        return selection if selection is not None and selection.runs <= _MOST_RUNS else None


def _replaced(places: Array, count: int) -> Array:
    """The row for each of `count` places; updates are the rows from `count`, and the last one of a place wins."""
    sources = np.arange(count)
    sources[places.reshape(-1)] = count + np.arange(places.size)
    return sources


def _select(do: Composer, x: Part, updates: Part, selection: Selection) -> Value:
    sources, before, width = selection
    both = do(top.Concat(axis=1), *(viewed(do, part, before, -1, width) for part in (x, updates)))
    return do(top.Gather(axis=1), both, sources.astype(np.float32), dims=(before, len(sources), width))


def _marks(do: Composer, places: Part, count: int, *, last_wins: bool) -> Value | Array:
    """`[groups, count, updates]`: 1 where an update has that place. `last_wins` leaves out updates that later ones of
    the same place replace.
    """
    numbers = np.arange(count, dtype=np.float32).reshape(1, count, 1)
    if not isinstance(places, Value):
        array = np.asarray(places)
        marks = array[:, None, :] == numbers
        if last_wins:
            later = np.flip(np.cumsum(np.flip(marks, 2), 2), 2) > 1
            marks &= ~later
        return marks.astype(np.float32)
    groups, updates = places.tensor.dims
    across = do.reshape(places, groups, 1, updates)
    marks = do(top.Compare(mode="Equal"), across, numbers)
    if not last_wins or updates == 1:
        return marks
    equal = do(top.Compare(mode="Equal"), do.reshape(places, groups, updates, 1), across)
    behind = np.triu(np.ones((1, updates, updates), np.float32), 1)
    later = row_sums(do, do(top.Mul(), equal, behind))
    is_last = do(top.CompareConst(mode="Equal", const_val=0.0), later)
    return do(top.Mul(), marks, do.reshape(is_last, groups, 1, updates))


def _scattered(do: Composer, x: Part, marks: Value | Array, updates: Part, reduction: str) -> Value:
    """Combine `x: [groups, places, width]` with `updates: [groups, updates, width]`."""
    groups, count, number = marks.tensor.dims if isinstance(marks, Value) else marks.shape
    base = viewed(do, x, groups, count, -1)
    width = (base.tensor.dims if isinstance(base, Value) else base.shape)[-1]
    if reduction in _EXTREMES:
        op, reduce, neutral = _EXTREMES[reduction]
        where, apart = top.Where(y_is_const=True, y_const_val=neutral), viewed(do, updates, groups, 1, number, width)
        own = viewed(do, marks, groups, count, number, 1)
        mine = do(where, own, apart, None, dims=(groups, count, number, width))
        return do(op(), do(top.Reduce(axes=(2,), mode=reduce, keepdims=False), mine), base)
    if groups == 1:
        rows = viewed(do, updates, number, width)
        found = do(top.MatMul(), viewed(do, marks, count, number), rows, None)
    else:
        columns = viewed(do, updates, groups, width, number)
        found = row_sums(do, do(top.Mul(), marks, columns, dims=(groups, count, number)))
    found = do.reshape(found, groups, count, width)
    if reduction == "add":
        return do(top.Add(), found, base)
    if isinstance(marks, Value):
        is_new: Part = do.reshape(row_sums(do, marks), groups, count, 1)
    else:
        is_new = np.asarray(marks.any(2, keepdims=True), np.float32)
    return do(top.Where(), is_new, found, base, dims=(groups, count, width))


@TABLE.legalizes(top.ScatterND)
class ScatterNDAny(Scattering[top.ScatterND]):
    """Flatten each row of indices to one row number by products with the row strides."""

    def rows(self, node: LoweringNode) -> tuple[int, int, int]:
        return math.prod(_indexed(node)), math.prod(node.operand_types[1].dims[:-1]), 1

    def selection(self, node: LoweringNode) -> Selection | None:
        places, (count, _, _) = self._constant_places(node), self.rows(node)
        return None if places is None else Selection(_replaced(places, count), 1, node.operand_types[0].size // count)

    def compose(self, node: LoweringNode[top.ScatterND], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        x, indices, updates = parts
        selection = self.selected(node)
        if selection is not None:
            return [do.reshape(_select(do, x, updates, selection), *node.result_type.dims, last=True)]
        count, number, _ = self.rows(node)
        places: Part = self._constant_places(node)
        if places is None:
            assert isinstance(indices, Value)
            indexed = _indexed(node)
            steps = np.array([math.prod(indexed[axis + 1 :]) for axis in range(len(indexed))], np.float32)
            rows = do.reshape(indices, number, len(indexed))
            places = row_numbers(do, rows, indexed, steps, np.zeros((number, 1), np.float32))
        marks = _marks(do, viewed(do, places, 1, number), count, last_wins=node.op.reduction == "none")
        return [do.reshape(_scattered(do, x, marks, updates, node.op.reduction), *node.result_type.dims, last=True)]

    def _constant_places(self, node: LoweringNode) -> Array | None:
        indices, indexed = node.constants[1], _indexed(node)
        if indices is None:
            return None
        whole = np.moveaxis(np.where(indices < 0, indices + indexed, indices).astype(np.int64), -1, 0)
        return np.asarray(np.ravel_multi_index(tuple(whole), indexed))


def _indexed(node: LoweringNode) -> tuple[int, ...]:
    """The dimensions that indices select from."""
    return node.operand_types[0].dims[: node.operand_types[1].dims[-1]]


@TABLE.legalizes(top.ScatterElements)
class ScatterElementsAny(Scattering[top.ScatterElements]):
    """Mark the updates of each line along the axis; elements beyond the extents of the indices stay."""

    def rows(self, node: LoweringNode) -> tuple[int, int, int]:
        taken, axis = node.operand_types[1].dims, positive_axis(node.op.axis, node.operand_types[0].rank)
        return node.operand_types[0].dims[axis], taken[axis], math.prod(taken) // max(taken[axis], 1)

    def selection(self, node: LoweringNode) -> Selection | None:
        indices = self._constant_places(node)
        if indices is None:
            return None
        dims, axis = node.operand_types[0].dims, positive_axis(node.op.axis, node.operand_types[0].rank)
        first = indices[tuple(slice(None) if at == axis else slice(1) for at in range(len(dims)))]
        is_whole = all(
            have == all_ for at, (have, all_) in enumerate(zip(indices.shape, dims, strict=True)) if at != axis
        )
        if is_whole and (indices == first).all():
            sources = _replaced(first, dims[axis])
            return Selection(sources, math.prod(dims[:axis]), math.prod(dims[axis + 1 :]))
        places = [indices if at == axis else grid for at, grid in enumerate(np.indices(indices.shape))]
        return Selection(_replaced(np.ravel_multi_index(tuple(places), dims), math.prod(dims)), 1, 1)

    def compose(self, node: LoweringNode[top.ScatterElements], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        x, indices, updates = parts
        selection = self.selected(node)
        if selection is not None:
            return [do.reshape(_select(do, x, updates, selection), *node.result_type.dims, last=True)]
        dims, taken = node.operand_types[0].dims, node.operand_types[1].dims
        axis = positive_axis(node.op.axis, len(dims))
        before, behind = math.prod(taken[:axis]), math.prod(taken[axis + 1 :])
        count, number, groups = self.rows(node)
        kept = (*taken[:axis], count, *taken[axis + 1 :])
        places: Part = self._constant_places(node)
        if places is None:
            assert isinstance(indices, Value)
            below = do(top.CompareConst(mode="Less", const_val=0.0), indices)
            places = do(top.Add(), indices, do(top.MulConst(const_val=float(count)), below))
        lines = [
            viewed(do, turned(do, part, (before, extent, behind)), groups, extent)
            for part, extent in ((_box(do, x, (0,) * len(kept), kept), count), (places, number), (updates, number))
        ]
        marks = _marks(do, lines[1], count, last_wins=node.op.reduction == "none")
        result = _scattered(do, lines[0], marks, lines[2], node.op.reduction)
        if behind > 1:
            result = do.permute(do.reshape(result, before, behind, count), 0, 2, 1)
        result = do.reshape(result, *kept)
        for at, extent in enumerate(dims):
            have = result.tensor.dims
            if have[at] != extent:
                rest = _box(
                    do,
                    x,
                    tuple(have[at] if one == at else 0 for one in range(len(dims))),
                    tuple(extent if one == at else end for one, end in enumerate(have)),
                )
                result = do(top.Concat(axis=at), result, rest)
        return [do.reshape(result, *dims, last=True)]

    def _constant_places(self, node: LoweringNode) -> Array | None:
        indices, (count, _, _) = node.constants[1], self.rows(node)
        return None if indices is None else np.where(indices < 0, indices + count, indices).astype(np.int64)


def _box(do: Composer, part: Part, start: Sequence[int], ends: Sequence[int]) -> Value | Array:
    """The elements from `start` to `ends`."""
    if isinstance(part, Value):
        return part if not any(start) and tuple(ends) == part.tensor.dims else do.slice(part, start, ends)
    return np.asarray(part, np.float32)[tuple(map(slice, start, ends))]
