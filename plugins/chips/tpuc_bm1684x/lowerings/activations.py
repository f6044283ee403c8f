"""Activations and softmax."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops.top.relu import Relu
from tpuc_ops.top.softmax import Softmax
from tpuc_ops.tpu.relu import Relu as TpuRelu
from tpuc_ops.tpu.softmax import Softmax as TpuSoftmax

from tpuc_bm1684x.lowerings.table import TABLE


@TABLE.lowers(Relu, "f32", "int8")
class ReluAny(Lowering[Relu]):
    """A clamp of stored values; the result keeps the operand's type."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(TpuRelu(relu_limit=node.op.relu_limit), node.operands, node.operands[0].tensor.at(None))]


@TABLE.lowers(Softmax, "f32", "int8")
class SoftmaxFloat(Lowering[Softmax]):
    """Stays f32 in every mode: eight bits cannot hold the tail of a distribution over many classes."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,) * len(node.operand_types)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Softmax = node.op
        absent = build.none()
        tpu = TpuSoftmax(axis=op.axis, beta=op.beta, log=op.log)
        return [build(tpu, [*node.operands, *(absent,) * 5], node.operands[0].tensor.at(None))]
