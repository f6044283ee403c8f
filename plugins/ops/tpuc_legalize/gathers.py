"""Gathers with several indices, as a Gather of flattened rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringNode, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.shapes import positive_axis

from tpuc_legalize.composer import MOVES, Composed, Composer, Part, largest_whole, row_sums, viewed
from tpuc_legalize.table import TABLE

_MOST_PRODUCTS = 1 << 22
"""Largest number of elements in the products of one GatherElements: 16 MiB in float32. Not measured."""


@TABLE.legalizes(top.GatherND)
class GatherNDAny(Composed[top.GatherND]):
    """Flatten each row of indices to one row number by products with the row strides."""

    into = (*MOVES, top.Add, top.CompareConst, top.Gather, top.MatMul, top.Mul)

    def refuse(self, node: LoweringNode) -> str | None:
        rows = math.prod(_chosen_dims(node))
        most = largest_whole(node)
        if node.constants[1] is None and rows > most:
            return (
                f"computed indices can select from at most {most} parts, here {rows}; select them outside the network"
            )
        return None

    def compose(self, node: LoweringNode[top.GatherND], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        x, indices = parts
        dims, batch = node.operand_types[0].dims, node.op.batch_dims
        chosen, taken = _chosen_dims(node), node.operand_types[1].dims
        steps = np.array([math.prod(chosen[axis + 1 :]) for axis in range(len(chosen))], np.float32)
        first = np.arange(math.prod(chosen[:batch])) * math.prod(chosen[batch:])
        first = np.broadcast_to(first[:, None], (first.size, math.prod(taken[batch:-1]))).reshape(-1, 1)
        view = (math.prod(chosen), math.prod(dims[len(chosen) :]))
        rows = np.asarray(x, np.float32).reshape(view) if not isinstance(x, Value) else do.reshape(x, *view)
        places: Part
        if isinstance(indices, Value):
            places = do.reshape(indices, len(first), taken[-1])
            places = row_numbers(do, places, chosen[batch:], steps[batch:], first.astype(np.float32))
        else:
            whole = np.asarray(indices).reshape(len(first), -1).astype(np.int64)
            places = np.where(whole < 0, whole + chosen[batch:], whole) @ steps[batch:].astype(np.int64) + first[:, 0]
        result = do(top.Gather(axis=0), rows, places, dims=(len(first), view[1]))
        return [do.reshape(result, *node.result_type.dims, last=True)]


def _chosen_dims(node: LoweringNode) -> tuple[int, ...]:
    """The dimensions of x selected by indices or by the batch."""
    return node.operand_types[0].dims[: node.op.batch_dims + node.operand_types[1].dims[-1]]


def row_numbers(do: Composer, places: Value, dims: Sequence[int], steps: Array, first: Array) -> Value:
    """The row number of each row of indices, from `first`; negative indices count from the end."""
    below = do(top.CompareConst(mode="Less", const_val=0.0), places)
    places = do(top.Add(), places, do(top.Mul(), below, np.array([dims], np.float32)))
    if len(dims) > 1:
        places = row_sums(do, places, steps)
    elif steps[0] != 1:
        places = do(top.Mul(), places, steps[None])
    if first.any():
        places = do(top.Add(), places, first)
    return do.reshape(places, len(first))


@TABLE.legalizes(top.GatherElements)
class GatherElementsAny(Composed[top.GatherElements]):
    """Sum all elements along the axis, multiplied by 1 where their number equals the index and by 0 elsewhere."""

    into = (*MOVES, top.Add, top.Compare, top.CompareConst, top.MatMul, top.Mul, top.MulConst)

    def refuse(self, node: LoweringNode) -> str | None:
        axis = positive_axis(node.op.axis, node.operand_types[0].rank)
        count, most = node.operand_types[0].dims[axis], largest_whole(node)
        if node.constants[1] is None and count > most:
            return (
                f"computed indices can select from at most {most} elements, here {count}; select them outside the "
                "network"
            )
        if node.operand_types[1].size * count > _MOST_PRODUCTS:
            return f"{node.operand_types[1].size} times {count} products are too many; select outside the network"
        return None

    def compose(self, node: LoweringNode[top.GatherElements], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        x, indices = parts
        taken, dims = node.operand_types[1].dims, node.operand_types[0].dims
        axis = positive_axis(node.op.axis, len(taken))
        kept = tuple(dims[axis] if at == axis else extent for at, extent in enumerate(taken))
        if isinstance(x, Value):
            x = x if kept == dims else do.slice(x, (0,) * len(kept), kept)
        else:
            x = np.asarray(x, np.float32)[tuple(slice(extent) for extent in kept)]
        before, count, behind = math.prod(taken[:axis]), dims[axis], math.prod(taken[axis + 1 :])
        numbers = np.arange(count, dtype=np.float32)
        rows = turned(do, x, (before, count, behind))
        rows = viewed(do, rows, before * behind, 1, count)
        if isinstance(indices, Value):
            places = turned(do, indices, (before, taken[axis], behind))
            places = viewed(do, places, before * behind, taken[axis], 1)
            below = do(top.CompareConst(mode="Less", const_val=0.0), places)
            places = do(top.Add(), places, do(top.MulConst(const_val=float(count)), below))
            is_chosen: Part = do(top.Compare(mode="Equal"), places, numbers.reshape(1, 1, count))
        else:
            whole = np.asarray(indices).astype(np.int64).reshape(before, taken[axis], behind).transpose(0, 2, 1)
            whole = whole.reshape(before * behind, taken[axis], 1)
            is_chosen = (np.where(whole < 0, whole + count, whole) == numbers).astype(np.float32)
        total = row_sums(do, do(top.Mul(), is_chosen, rows))
        if behind > 1:
            total = do.permute(do.reshape(total, before, behind, taken[axis]), 0, 2, 1)
        return [do.reshape(total, *taken, last=True)]


def turned(do: Composer, part: Part, dims: tuple[int, int, int]) -> Value | Array:
    """View a part under three dimensions and swap the last two."""
    if not isinstance(part, Value):
        return np.asarray(part).reshape(dims).transpose(0, 2, 1)
    view = do.reshape(part, *dims)
    return do.permute(view, 0, 2, 1) if 1 not in dims[1:] else view
