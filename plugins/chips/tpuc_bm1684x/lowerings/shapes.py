"""Ops that move data or rename shapes: any element type passes through."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops.top.flatten import Flatten
from tpuc_ops.top.permute import Permute
from tpuc_ops.top.reshape import Reshape
from tpuc_ops.tpu.permute import Permute as TpuPermute
from tpuc_ops.tpu.reshape import Reshape as TpuReshape

from tpuc_bm1684x.lowerings.table import TABLE


@TABLE.lowers(Reshape, "f32", "int8")
@TABLE.lowers(Flatten, "f32", "int8")
class ReshapeAny(Lowering[Reshape]):
    """The same bytes under another shape."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS,) * len(node.operand_types)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        result = node.operands[0].tensor.with_shape(node.result_type.dims)
        return [build(TpuReshape(shape=node.result_type.dims), node.operands[:1], result)]


@TABLE.lowers(Permute, "f32", "int8")
class PermuteAny(Lowering[Permute]):
    """A transposition of stored values."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS,)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        result = node.operands[0].tensor.with_shape(node.result_type.dims)
        return [build(TpuPermute(order=node.op.order), node.operands, result)]
