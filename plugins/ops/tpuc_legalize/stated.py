"""QuantizeLinear and DequantizeLinear that no pass could absorb into types: integers stored as floats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringNode, Op, Value
from tpuc_ops import top
from tpuc_ops.linear import integer_range, per_axis

from tpuc_legalize.composer import Composed, Composer, Part
from tpuc_legalize.table import TABLE


@TABLE.legalizes(top.QuantizeLinear)
class QuantizeLinearAny(Composed[top.QuantizeLinear]):
    """A product with the reciprocal scale, rounded, plus the zero point, saturated."""

    into = (top.Add, top.AddConst, top.Clip, top.Mul, top.MulConst, top.Round)

    def compose(self, node: LoweringNode[top.QuantizeLinear], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op, (x,) = node.op, parts
        low, high = integer_range(op.to)
        scaled = _by(do, node, x, [1 / scale for scale in op.y_scale], top.MulConst, top.Mul())
        whole = do(top.Round(), scaled)
        if any(op.y_zero_point):
            whole = _by(do, node, whole, op.y_zero_point, top.AddConst, top.Add())
        return [do(top.Clip(min=low, max=high), whole, last=True)]


@TABLE.legalizes(top.DequantizeLinear)
class DequantizeLinearAny(Composed[top.DequantizeLinear]):
    """The difference from the zero point times the scale."""

    into = (top.Add, top.AddConst, top.Mul, top.MulConst)

    def compose(self, node: LoweringNode[top.DequantizeLinear], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op, (x,) = node.op, parts
        if any(op.x_zero_point):
            x = _by(do, node, x, [-zero for zero in op.x_zero_point], top.AddConst, top.Add())
        return [_by(do, node, x, op.x_scale, top.MulConst, top.Mul(), last=True)]


def _by(
    do: Composer,
    node: LoweringNode,
    x: Part,
    numbers: Sequence[float],
    with_number: type[top.MulConst | top.AddConst],
    with_tensor: Op,
    *,
    last: bool = False,
) -> Value:
    """One number for all elements, or one for each index of the op's axis."""
    if len(numbers) == 1:
        return do(with_number(const_val=float(numbers[0])), x, last=last)
    rank = node.result_type.rank
    column = per_axis(numbers, rank, node.op.axis)
    return do(with_tensor, x, np.reshape(column, (1,) * (rank - column.ndim) + column.shape), last=last)
