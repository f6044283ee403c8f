"""Softmax by its definition."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import LoweringNode, Value
from tpuc_ops.shapes import positive_axis
from tpuc_ops.top.div import Div
from tpuc_ops.top.exp import Exp
from tpuc_ops.top.log import Log
from tpuc_ops.top.mul_const import MulConst
from tpuc_ops.top.reduce import Reduce
from tpuc_ops.top.softmax import Softmax
from tpuc_ops.top.sub import Sub

from tpuc_legalise.composer import MOVES, Composed, Composer, Part
from tpuc_legalise.table import TABLE


@TABLE.legalises(Softmax)
class SoftmaxAny(Composed[Softmax]):
    """Exponentials of what is left below the maximum, over their sum."""

    into = (*MOVES, Div, Exp, Log, MulConst, Reduce, Sub)

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op: Softmax = node.op
        x = node.operands[0]
        axes = (positive_axis(op.axis, x.tensor.rank),)
        below = do(Sub(), x, do(Reduce(axes=axes, mode="ReduceMax"), x))
        if op.beta != 1.0:
            below = do(MulConst(const_val=op.beta), below)
        powers = do(Exp(), below)
        total = do(Reduce(axes=axes, mode="ReduceSum"), powers)
        return [do(Sub(), below, do(Log(), total), last=True) if op.log else do(Div(), powers, total, last=True)]
