"""Bounds that values cannot exceed for any input: of sigmoids, clips, and capped relus."""

from __future__ import annotations

from tpuc.api import FusesRelu, Module, Operation
from tpuc_ops.traits import Bounded, NoLarger, states


def bounds_of(module: Module) -> dict[str, float]:
    """The bounds by name, for values that have one."""
    found: dict[str, float] = {}
    for operation in module.main.operations:
        bound = _bound(operation, found)
        if bound is not None:
            found.update((result.name, bound) for result in operation.results)
    return found


def _bound(operation: Operation, found: dict[str, float]) -> float | None:
    op = operation.op
    fields = op.__dict__
    if isinstance(op, FusesRelu) and fields["do_relu"] and fields["relu_limit"] > 0:
        return fields["relu_limit"]
    limits = op.bounds() if isinstance(op, Bounded) else None
    if limits is not None:
        return max(map(abs, limits))
    if states(op, NoLarger):
        bounds = [found.get(operand.name) for operand in operation.operands]
        known = [bound for bound in bounds if bound is not None]
        return max(known) if known and len(known) == len(bounds) else None
    return None
