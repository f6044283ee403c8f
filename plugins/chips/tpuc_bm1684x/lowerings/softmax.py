"""Softmax."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops import top, tpu

from tpuc_bm1684x.lowerings.common import ALL, f32_result, local_memory
from tpuc_bm1684x.lowerings.table import TABLE
from tpuc_bm1684x.lowerings.turning import is_scattered, turned, turned_back

_ROWS = 5
"""Rows of f32 that the kernel holds in a lane: argument, result, and those of the exponential."""
_REST = 512
"""Bytes of its other buffers, and of the space behind rows."""


@TABLE.lowers(top.Softmax, *ALL)
class SoftmaxFloat(Lowering[top.Softmax]):
    """Computes in f32 in every mode: 8 bits cannot represent the tail of a distribution over many classes."""

    def refuse(self, node: LoweringNode[top.Softmax]) -> str | None:
        if node.op.log:
            return "log softmax has no kernel"
        count = node.operand_types[0].dims[node.op.axis]
        most = (local_memory(node)[1] - _REST) // (4 * _ROWS)
        return None if count <= most else f"at most {most} values along the axis, this one has {count}"

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
