"""Bounds that values cannot exceed whatever the samples: of sigmoids, clips, and capped relus."""

from __future__ import annotations

from typing import Any

from tpuc.api import Module, Operation, ShapeOnly
from tpuc_ops import top

UP_TO_ONE = (top.Erf, top.HardSigmoid, top.Sigmoid, top.Softmax, top.Softsign, top.Tanh)
NO_LARGER = (
    top.AvgPool,
    top.Concat,
    top.Depth2Space,
    top.MaxPool,
    top.Permute,
    top.Relu,
    ShapeOnly,
    top.Slice,
    top.Split,
    top.Upsample,
)
"""Ops whose results are no larger than their operands."""


def bounds_of(module: Module) -> dict[str, float]:
    """By name, for the values that have such a bound."""
    found: dict[str, float] = {}
    for operation in module.main.operations:
        bound = _bound(operation, found)
        if bound is not None:
            found.update((result.name, bound) for result in operation.results)
    return found


def _bound(operation: Operation, found: dict[str, float]) -> float | None:
    op: Any = operation.op
    fields = op.__dict__
    if fields.get("do_relu", isinstance(op, top.Relu)) and fields.get("relu_limit", 0.0) > 0:
        return fields["relu_limit"]
    if isinstance(op, top.Clip):
        return max(abs(op.min), abs(op.max))
    if isinstance(op, top.Sigmoid) and (op.scale, op.bias) != (1.0, 0.0):
        return None if op.log else max(abs(op.bias), abs(op.scale + op.bias))
    if isinstance(op, UP_TO_ONE):
        return None if fields.get("log") else 1.0
    if isinstance(op, NO_LARGER):
        bounds = [found.get(operand.name) for operand in operation.operands]
        known = [bound for bound in bounds if bound is not None]
        return max(known) if known and len(known) == len(bounds) else None
    return None
