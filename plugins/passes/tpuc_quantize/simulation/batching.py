"""Batch several samples along the first axis where the ops allow it and it saves time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tpuc.api import Elementwise, NetworkInput, Node, ShapeOnly, TensorType
from tpuc.api.evaluation import Plan, Step
from tpuc_ops.traits import RowByRow

TOGETHER = 1 << 21
"""Elements of all values of the samples that run at once. Small networks spend most time in numpy's call overhead."""


def batch_limit(plan: Plan) -> int:
    """The number of samples of a network that run at once: the same for any number of threads."""
    types = [value.type for step in plan.steps for value in step.operation.results]
    types += [item.type for item in plan.inputs]
    tensors = [type for type in types if isinstance(type, TensorType) and type.shape and min(type.dims) > 0]
    if len(tensors) < len(types):
        return 1
    return max(TOGETHER // sum(type.size for type in tensors), 1)


def batched_node(step: Step, shared: Collection[int], count: int) -> Node | None:
    """The step with the types of that many samples; None where it must run them one after the other. The slots in
    `shared` are the same for all samples.
    """
    node = step.node
    own = [slot not in shared for slot in step.operands]
    pairs = list(zip(node.operand_types, own, strict=True))
    op = step.operation.op
    if not isinstance(op, (RowByRow, Elementwise, NetworkInput, ShapeOnly)) or len(node.result_types) != 1:
        return None
    if not any(own) or not all(_is_row_by_row(step, type, is_own) for type, is_own in pairs):
        return None
    types = tuple(_of_samples(type, count) if is_own else type for type, is_own in pairs)
    return replace(node, operand_types=types, result_types=(_of_samples(node.result_type, count),))


def _is_row_by_row(step: Step, operand: TensorType, is_own: bool) -> bool:
    """True if the first index of the result depends only on the same index of an operand, or on operands shared by all
    samples.
    """
    result = step.node.result_type
    broadcasts = isinstance(step.operation.op, Elementwise)
    if not is_own:
        return not broadcasts or operand.rank < result.rank or operand.dims[0] == 1
    return operand.dims[0] == result.dims[0] and (not broadcasts or operand.rank == result.rank)


def _of_samples(type: TensorType, count: int) -> TensorType:
    first, *others = type.dims
    return type.with_shape((first * count, *others))
