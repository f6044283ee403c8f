"""Reorder ops so that the program switches between TPU and host as rarely as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tpuc.api import CpuRoutine, Module, MoveKernel, Node, Operation, Pass, PassContext
from tpuc_lower.target.kernels import find_kernel, runs_on_chip

TPU, HOST = "tpu", "host"


@dataclass(frozen=True)
class SubnetDivide(Pass):
    """Group ops that host functions compute, and ops that the TPU computes, as far as dependences allow. Operations
    move only if this reduces the number of parts; each part is as long as possible.
    """

    name = "subnet-divide"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises Unsupported for the first op that neither side can compute."""
        operations = module.main.operations
        sides = {operation: side for operation in operations if (side := _side(context, operation)) is not None}
        if HOST not in sides.values():
            return False
        best = fewest_crossings(operations, sides)
        if best is operations:
            return False
        operations[:] = best
        return True


def fewest_crossings(operations: Sequence[Operation], sides: Mapping[Operation, str]) -> Sequence[Operation]:
    """Return an order with the fewest changes of side; the same `operations` object if it has the fewest already."""
    orders = (_ordered(operations, sides, first) for first in (TPU, HOST))
    return min((operations, *orders), key=lambda order: crossings(order, sides))


def crossings(order: Sequence[Operation], sides: Mapping[Operation, str]) -> int:
    """Return how often the side changes."""
    met = [sides[operation] for operation in order if operation in sides]
    return sum(before != after for before, after in pairwise(met))


def _side(context: PassContext, operation: Operation) -> str | None:
    """Return the side that computes an operation; None if nothing is computed."""
    if not runs_on_chip(operation):
        return None
    kernel = find_kernel(context, operation)
    if isinstance(kernel, CpuRoutine):
        return HOST
    return None if isinstance(kernel, MoveKernel) and kernel.is_alias(Node.of(operation)) else TPU


def _ordered(operations: Sequence[Operation], sides: Mapping[Operation, str], first: str) -> list[Operation]:
    """Alternate the sides, starting with `first`: each takes every op that is ready, in the given order."""
    order, placed = list[Operation](), set[Operation]()
    *left, end = operations
    side = first
    while left:
        waiting: list[Operation] = []
        for operation in left:
            makers = (value.defining for value in (*operation.operands, *operation.captured()))
            is_ready = all(maker is None or maker in placed for maker in makers)
            if is_ready and sides.get(operation, side) == side:
                order.append(operation)
                placed.add(operation)
            else:
                waiting.append(operation)
        left, side = waiting, HOST if side == TPU else TPU
    return [*order, end]
