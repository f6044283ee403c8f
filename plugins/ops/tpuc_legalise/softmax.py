"""Softmax by its definition."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import LoweringNode, Value
from tpuc_ops import top
from tpuc_ops.shapes import positive_axis

from tpuc_legalise.composer import MOVES, Composed, Composer, Part
from tpuc_legalise.table import TABLE


@TABLE.legalises(top.Softmax)
class SoftmaxAny(Composed[top.Softmax]):
    """Exponentials of what is left below the maximum, over their sum."""

    into = (*MOVES, top.Div, top.Exp, top.Log, top.MulConst, top.Reduce, top.Sub)

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op: top.Softmax = node.op
        x = node.operands[0]
        axes = (positive_axis(op.axis, x.tensor.rank),)
        below = do(top.Sub(), x, do(top.Reduce(axes=axes, mode="ReduceMax"), x))
        if op.beta != 1.0:
            below = do(top.MulConst(const_val=op.beta), below)
        powers = do(top.Exp(), below)
        total = do(top.Reduce(axes=axes, mode="ReduceSum"), powers)
        return [
            do(top.Sub(), below, do(top.Log(), total), last=True) if op.log else do(top.Div(), powers, total, last=True)
        ]
