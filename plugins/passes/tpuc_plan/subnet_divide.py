"""Order ops so that the program switches between TPU and processor as rarely as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tpuc.api import CpuRoutine, Module, MoveKernel, Node, Operation, Pass, PassContext
from tpuc_lower.target.kernels import find_kernel, runs_on_chip

TPU, HOST = "tpu", "host"


@dataclass(frozen=True)
class SubnetDivide(Pass):
    """What functions of the processor compute stands together where nothing between them needs the TPU, and so does
    what the TPU computes. Operations are moved only where fewer parts come of it; each part is as long as can be.
    """

    name = "subnet-divide"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises Unsupported for the first op that neither computes."""
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
    """An order whose side changes as rarely as in any other one: the very `operations`, if they are such."""
    orders = (_ordered(operations, sides, first) for first in (TPU, HOST))
    return min((operations, *orders), key=lambda order: crossings(order, sides))


def crossings(order: Sequence[Operation], sides: Mapping[Operation, str]) -> int:
    """How often the side changes."""
    met = [sides[operation] for operation in order if operation in sides]
    return sum(before != after for before, after in pairwise(met))


def _side(context: PassContext, operation: Operation) -> str | None:
    """Who computes an operation; None where nothing is computed, or on either side."""
    if not runs_on_chip(operation):
        return None
    kernel = find_kernel(context, operation)
    if isinstance(kernel, CpuRoutine):
        return HOST
    return None if isinstance(kernel, MoveKernel) and kernel.is_alias(Node.of(operation)) else TPU


def _ordered(operations: Sequence[Operation], sides: Mapping[Operation, str], first: str) -> list[Operation]:
    """All that one side can compute, then all that the other one can, and so on, each in the order that it stood."""
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
