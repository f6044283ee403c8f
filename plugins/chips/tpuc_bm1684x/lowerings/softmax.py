"""Softmax and its logarithm."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops import top, tpu
from tpuc_ops.shapes import positive_axis

from tpuc_bm1684x.lowerings.common import (
    ALL,
    f32_result,
)
from tpuc_bm1684x.lowerings.table import TABLE


@TABLE.lowers(top.Softmax, *ALL)
class SoftmaxFloat(Lowering[top.Softmax]):
    """Stays f32 in every mode: eight bits cannot hold the tail of a distribution over many classes.

    The logarithm is ``d - log(sum(e**d))`` with d less than the maximum.
    """

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,) * len(node.operand_types)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.Softmax = node.op
        if op.log:
            return [_log_softmax(node, build)]
        absent = build.none()
        return [build(tpu.Softmax(axis=op.axis, beta=op.beta), [*node.operands, *(absent,) * 5], f32_result(node))]


def _log_softmax(node: LoweringNode, build: LoweringBuilder) -> Value:
    op: top.Softmax = node.op
    value, type_ = node.operands[0], f32_result(node)
    axis = positive_axis(op.axis, type_.rank)
    row = type_.with_shape((*type_.dims[:axis], 1, *type_.dims[axis + 1 :]))
    if op.beta != 1.0:
        value = build(tpu.MulConst(const_val=op.beta), [value], type_, f"{node.name}_scaled")
    greatest = build(tpu.Reduce(axes=(axis,), mode="ReduceMax"), [value], row, f"{node.name}_max")
    below = build(tpu.Sub(), [value, greatest], type_, f"{node.name}_below")
    exponentials = build(tpu.Active(mode="EXP"), [below], type_, f"{node.name}_exp")
    total = build(tpu.Reduce(axes=(axis,), mode="ReduceSum"), [exponentials], row, f"{node.name}_sum")
    logarithm = build(tpu.Active(mode="LN"), [total], row, f"{node.name}_log")
    return build(tpu.Sub(), [below, logarithm], type_)
