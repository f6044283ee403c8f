"""Softmax."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops import top, tpu

from tpuc_bm1684x.lowerings.common import (
    ALL,
    f32_result,
)
from tpuc_bm1684x.lowerings.table import TABLE
from tpuc_bm1684x.lowerings.turning import is_scattered, turned, turned_back


@TABLE.lowers(top.Softmax, *ALL)
class SoftmaxFloat(Lowering[top.Softmax]):
    """Computes in f32 in every mode: 8 bits cannot represent the tail of a distribution over many classes."""

    def refuse(self, node: LoweringNode) -> str | None:
        return "log softmax has no kernel" if node.op.log else None

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,) * len(node.operand_types)

    def lower(self, node: LoweringNode[top.Softmax], build: LoweringBuilder) -> Sequence[Value]:
        (value, *others), result = node.operands, f32_result(node)
        axis = node.op.axis % value.tensor.rank
        if not is_scattered(value, axis):
            return [build(tpu.Softmax(axis=node.op.axis, beta=node.op.beta), node.operands, result)]
        rows = turned(build, value, axis, node.name)
        softmax = tpu.Softmax(axis=rows.tensor.rank - 1, beta=node.op.beta)
        type_ = result.with_shape(rows.tensor.dims).at(None)
        rows = build(softmax, [rows, *others], type_, f"{node.name}_rows")
        return [turned_back(build, rows, axis, node.name)]
