"""Softmax: in the runtime at the end of a network, on the chip elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import F32, Lowering, LoweringBuilder, LoweringNode, Return, Value, Wants
from tpuc_ops import top, tpu
from tpuc_ops.integers import without_point, zero_point
from tpuc_ops.shapes import positive_axis

from tpuc_cv18.lowerings.casts import cast
from tpuc_cv18.lowerings.table import TABLE
from tpuc_cv18.operands import MAX_EXTENT

_ENDS = (Return, top.Permute, top.DetectionOutput)
"""What may come after the last softmax of a network; the processor goes on with the last of them itself."""


@TABLE.lowers(top.Softmax, "bf16", "int8")
class SoftmaxFloat(Lowering[top.Softmax]):
    """A last one in f32 by the runtime: eight bits cannot hold the tail of a distribution over many classes. What other
    ops read is computed in bf16 on the chip, which need not wait for the processor then; so are logarithms.
    """

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return not zero_point(node.result_type)

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS if zero_point(node.operand_types[0]) else Wants.FLOAT,)

    def refuse(self, node: LoweringNode) -> str | None:
        return "the runtime computes those that end a network" if _stays_on_chip(node) else None

    def lower(self, node: LoweringNode[top.Softmax], build: LoweringBuilder) -> Sequence[Value]:
        lowered = tpu.Softmax(axis=node.op.axis, beta=node.op.beta, log=node.op.log)
        (value,) = node.operands
        if value.tensor.is_quantised and value.tensor.storage.is_unsigned:
            value = cast(value, value.tensor.shape_only().with_element(F32), f"{node.name}_floats", build)
        elif value.tensor.is_quantised:
            value = _floats(value, node, build)
        return [build(lowered, [value], value.tensor.at(None))]


def _floats(value: Value, node: LoweringNode, build: LoweringBuilder) -> Value:
    """Integers with a zero point as floats that are all moved by one number, which a softmax does not see."""
    plain = without_point(value.tensor).at(None)
    moved = build(tpu.Reshape(shape=plain.dims), [value], plain, f"{node.name}_moved")
    return cast(moved, plain.shape_only().with_element(F32), f"{node.name}_floats", build)


def _stays_on_chip(node: LoweringNode[top.Softmax]) -> bool:
    dims = node.operand_types[0].dims
    if dims[positive_axis(node.op.axis, len(dims))] > MAX_EXTENT:
        return False
    return not all(isinstance(user, _ENDS) for user in node.users) or node.op.log or node.op.beta != 1.0
