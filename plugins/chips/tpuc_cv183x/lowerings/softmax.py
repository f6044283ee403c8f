"""Softmax: by the runtime where the network ends, by the chip where it goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Return, Value, Wants
from tpuc_ops import top, tpu
from tpuc_ops.shapes import positive_axis

from tpuc_cv183x.lowerings.halves import Halves
from tpuc_cv183x.lowerings.table import TABLE

_MOST_PLACES = 4063
_ENDS = (Return, top.Flatten, top.Permute, top.Reshape, top.Squeeze, top.Unsqueeze)
"""What may come after the last softmax of a network."""


@TABLE.lowers(top.Softmax, "bf16", "int8")
class SoftmaxFloat(Lowering[top.Softmax]):
    """A last one in f32 by the runtime: eight bits cannot hold the tail of a distribution over many classes. What other
    ops read is computed in bf16 on the chip, which need not wait for the processor then; so are logarithms.
    """

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS if _stays_on_chip(node) else Wants.FLOAT,) * len(node.operand_types)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: top.Softmax = node.op
        if not _stays_on_chip(node):
            lowered = tpu.Softmax(axis=op.axis, beta=op.beta, log=op.log)
            return [build(lowered, node.operands, node.operands[0].tensor.at(None))]
        steps, dims = Halves(node, build), node.result_type.dims
        axis = positive_axis(op.axis, len(dims))
        shape = (1, math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :]))
        whole = (shape[2], 1)
        if shape[3] == 1:
            shape, whole = (1, shape[1], 1, shape[2]), (1, shape[2])
        value = steps.times(steps.reshape(steps.operand(), shape), op.beta)
        value = steps.do(tpu.Sub(), [value, steps.pooled(value, "Max", whole)])
        powers = steps.function("EXP", value)
        total = steps.times(steps.pooled(powers, "Avg", whole), dims[axis])
        if op.log:
            return steps.last(steps.do(tpu.Sub(), [value, steps.function("LN", total)]))
        return steps.last(steps.do(tpu.Div(), [powers, total]))


def _stays_on_chip(node: LoweringNode) -> bool:
    op: top.Softmax = node.op
    dims = node.operand_types[0].dims
    if dims[positive_axis(op.axis, len(dims))] > _MOST_PLACES:
        return False
    return not all(isinstance(user, _ENDS) for user in node.users) or op.log or op.beta != 1.0
