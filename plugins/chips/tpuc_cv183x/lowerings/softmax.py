"""Softmax: by the runtime where the network ends, by the chip where it goes on."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Return, Value, Wants
from tpuc_ops import top, tpu
from tpuc_ops.shapes import positive_axis

from tpuc_cv183x.lowerings.table import TABLE
from tpuc_cv183x.operands import MAX_EXTENT

_ENDS = (Return, top.Permute)
"""What may come after the last softmax of a network."""


@TABLE.lowers(top.Softmax, "bf16", "int8")
class SoftmaxFloat(Lowering[top.Softmax]):
    """A last one in f32 by the runtime: eight bits cannot hold the tail of a distribution over many classes. What other
    ops read is computed in bf16 on the chip, which need not wait for the processor then; so are logarithms.
    """

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,) * len(node.operand_types)

    def refuse(self, node: LoweringNode) -> str | None:
        return "the runtime computes those that end a network" if _stays_on_chip(node) else None

    def lower(self, node: LoweringNode[top.Softmax], build: LoweringBuilder) -> Sequence[Value]:
        lowered = tpu.Softmax(axis=node.op.axis, beta=node.op.beta, log=node.op.log)
        return [build(lowered, node.operands, node.operands[0].tensor.at(None))]


def _stays_on_chip(node: LoweringNode[top.Softmax]) -> bool:
    dims = node.operand_types[0].dims
    if dims[positive_axis(node.op.axis, len(dims))] > MAX_EXTENT:
        return False
    return not all(isinstance(user, _ENDS) for user in node.users) or node.op.log or node.op.beta != 1.0
