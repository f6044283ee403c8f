"""The largest magnitude that values can have whatever the samples: of sigmoids, clipped values and capped relus."""

from __future__ import annotations

from typing import Any

from tpuc.api import Module, Operation, ShapeOnly
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.clip import Clip
from tpuc_ops.top.concat import Concat
from tpuc_ops.top.depth2space import Depth2Space
from tpuc_ops.top.erf import Erf
from tpuc_ops.top.hard_sigmoid import HardSigmoid
from tpuc_ops.top.max_pool import MaxPool
from tpuc_ops.top.permute import Permute
from tpuc_ops.top.relu import Relu
from tpuc_ops.top.sigmoid import Sigmoid
from tpuc_ops.top.slice import Slice
from tpuc_ops.top.softmax import Softmax
from tpuc_ops.top.softsign import Softsign
from tpuc_ops.top.split import Split
from tpuc_ops.top.tanh import Tanh
from tpuc_ops.top.upsample import Upsample

UP_TO_ONE = (Erf, HardSigmoid, Sigmoid, Softmax, Softsign, Tanh)
NO_LARGER = (AvgPool, Concat, Depth2Space, MaxPool, Permute, Relu, ShapeOnly, Slice, Split, Upsample)
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
    if fields.get("do_relu", isinstance(op, Relu)) and fields.get("relu_limit", 0.0) > 0:
        return fields["relu_limit"]
    if isinstance(op, Clip):
        return max(abs(op.min), abs(op.max))
    if isinstance(op, UP_TO_ONE):
        return None if fields.get("log") else 1.0
    if isinstance(op, NO_LARGER):
        bounds = [found.get(operand.name) for operand in operation.operands]
        known = [bound for bound in bounds if bound is not None]
        return max(known) if known and len(known) == len(bounds) else None
    return None
