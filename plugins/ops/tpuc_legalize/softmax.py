"""Softmax by its definition."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpuc.api import LoweringNode, Value
from tpuc_ops import top
from tpuc_ops.shapes import positive_axis

from tpuc_legalize.composer import MOVES, Composed, Composer, Part, rows_of
from tpuc_legalize.table import TABLE


@TABLE.legalizes(top.Softmax)
class SoftmaxAny(Composed[top.Softmax]):
    """Exponentials of the differences from the maximum, divided by their sum."""

    into = (*MOVES, top.Div, top.Exp, top.Log, top.MulConst, top.Reduce, top.Sub)

    def compose(self, node: LoweringNode[top.Softmax], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op = node.op
        x = node.operands[0]
        dims = x.tensor.dims
        axis = positive_axis(op.axis, len(dims))
        before, count, behind = math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :])
        rows = (1, before, count, behind) if behind > 1 else rows_of(node, before)
        axes = (2,) if behind > 1 else tuple(range(2, len(rows)))
        x, last = do.reshape(x, *rows), rows == dims
        below = do(top.Sub(), x, x if count == 1 else do(top.Reduce(axes=axes, mode="ReduceMax"), x))
        if op.beta != 1.0:
            below = do(top.MulConst(const_val=op.beta), below)
        powers = do(top.Exp(), below)
        total = powers if count == 1 else do(top.Reduce(axes=axes, mode="ReduceSum"), powers)
        if op.log:
            value = do(top.Sub(), below, do(top.Log(), total), last=last)
        else:
            value = do(top.Div(), powers, total, last=last)
        return [value if last else do.reshape(value, *dims, last=True)]
