"""TopK of short rows, by the rank of every element."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringNode, Value
from tpuc_ops import top
from tpuc_ops.shapes import positive_axis

from tpuc_legalize.composer import MOVES, Composed, Composer, Part, largest_whole, row_sums
from tpuc_legalize.table import TABLE

_MOST_PRODUCTS = 1 << 22
"""Largest number of elements in the products of one TopK: 16 MiB in float32. Not measured."""


@TABLE.legalizes(top.TopK)
class TopKAny(Composed[top.TopK]):
    """Rank an element by how many others come before it: better ones, and equal ones of lower index. Place k holds the
    sum of all elements (of all indices), multiplied by 1 where the rank is k and by 0 elsewhere.
    """

    into = (*MOVES, top.Add, top.Compare, top.MatMul, top.Mul)

    def refuse(self, node: LoweringNode) -> str | None:
        type_ = node.operand_types[0]
        count, most = type_.dims[positive_axis(node.op.axis, type_.rank)], largest_whole(node)
        if count > most:
            return f"it ranks at most {most} elements, here {count}; select outside the network"
        if type_.size * count > _MOST_PRODUCTS:
            return f"{type_.size} times {count} comparisons are too many; select outside the network"
        return None

    def compose(self, node: LoweringNode[top.TopK], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        (x,), op, dims = parts, node.op, node.operand_types[0].dims
        assert isinstance(x, Value)
        axis = positive_axis(op.axis, len(dims))
        before, count, behind = math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :])
        rows = before * behind
        x = do.permute(do.reshape(x, before, count, behind), 0, 2, 1) if behind > 1 else x
        mine, others = do.reshape(x, rows, count, 1), do.reshape(x, rows, 1, count)
        better = do(top.Compare(mode="Less" if op.largest else "Greater"), mine, others)
        lower = np.tril(np.ones((1, count, count), np.float32), -1)
        equal = do(top.Mul(), do(top.Compare(mode="Equal"), mine, others), lower)
        rank = row_sums(do, do(top.Add(), better, equal))
        places = np.arange(op.K, dtype=np.float32).reshape(1, op.K, 1)
        is_chosen = do(top.Compare(mode="Equal"), do.reshape(rank, rows, 1, count), places)
        numbers = np.arange(count, dtype=np.float32)
        found = (row_sums(do, do(top.Mul(), is_chosen, others)), row_sums(do, is_chosen, numbers))
        results: list[Value] = []
        for value, name, type_ in zip(found, node.result_names, node.result_types, strict=True):
            if behind > 1:
                value = do.permute(do.reshape(value, before, behind, op.K), 0, 2, 1)
            results.append(do.reshape(value, *type_.dims, name=name))
        return results
