"""Compute live ranges of DDR tensors, and read and write their addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tpuc.api import (
    ChipDescription,
    Function,
    IntegerAttr,
    NetworkInput,
    Operation,
    TensorType,
    Value,
)

from tpuc_plan.planners.alignment import align
from tpuc_plan.tasks.aliases import AliasSets
from tpuc_plan.tasks.cores import stretches_of
from tpuc_plan.tasks.plan import Residency
from tpuc_plan.tasks.task import Task, TileTask

POOL = "activations"


@dataclass(frozen=True)
class Lifetime:
    """A DDR tensor, the root of an alias set, that is live from program point `first` to `last`, both included."""

    value: Value
    first: int
    last: int
    size_bytes: int


def lifetimes(function: Function, tasks: Iterable[Task], aliases: AliasSets) -> list[Lifetime]:
    """Return the live ranges of all DDR tensors, ordered by start. Values that never leave local memory have none;
    values that share bytes have one, under their root.
    """
    spans: dict[Value, tuple[int, int]] = {}

    def touch(value: Value, point: int) -> None:
        root, _ = aliases.place(value)
        first, last = spans.get(root, (point, point))
        spans[root] = (min(first, point), max(last, point))

    by_operation = {task.operation: task for task in tasks}
    points = {operation: point for point, operation in enumerate(function.operations)}
    cascades, beside = _cascades(by_operation, points), stretches_of(function.operations)
    for point, operation in enumerate(function.operations):
        if isinstance(operation.op, NetworkInput):
            touch(operation.result, 0)  # the host writes all of them before anything runs
        task = by_operation.get(operation)
        if task is None:
            continue
        residency = task.residency if isinstance(task, TileTask) else Residency.streamed(len(operation.results))
        begin, end = cascades.get(operation, (point, point))
        used = [operation.results[index] for index in sorted(residency.written_back)]
        for index, operand in enumerate(operation.operands):
            if index not in residency.resident_in and isinstance(operand.type, TensorType) and not operand.is_constant:
                touch(operand, point)
                touch(operand, end)
                used.append(operand)
        for index in sorted(residency.written_back):
            touch(operation.results[index], begin)
            touch(operation.results[index], point)
        for moment in beside.get(operation, ()):
            for value in used:
                touch(value, moment)
    for value in function.outputs:
        touch(value, len(function.operations))
    return [
        Lifetime(value, first, last, value.tensor.size_bytes)
        for value, (first, last) in sorted(spans.items(), key=lambda span: span[1][0])
    ]


def _cascades(tasks: Mapping[Operation, Task], points: Mapping[Operation, int]) -> dict[Operation, tuple[int, int]]:
    """Map each operation of a cascade to the cascade's first and last point: its stripes read and write DDR in turn."""
    members: dict[int, list[Operation]] = {}
    for operation, task in tasks.items():
        if isinstance(task, TileTask) and task.stripes is not None:
            members.setdefault(task.stripes.cascade, []).append(operation)
    return {one: (points[group[0]], points[group[-1]]) for group in members.values() for one in group}


def boundary_addresses(
    ends: Iterable[Value], aliases: AliasSets, description: ChipDescription, start: int | None = None
) -> dict[Value, int]:
    """Return the addresses of inputs and then outputs that lie apart from the activations: all of them from `start` on,
    else those that the chip has a memory for.
    """
    values = dict.fromkeys(aliases.place(value)[0] for value in ends)
    addresses = {} if start is not None else dict(zip(values, description.boundary_bases, strict=False))
    at = description.boundary_rest if start is None else start
    if at is not None:
        for value in list(values)[len(addresses) :]:
            addresses[value] = at
            at = align(at + value.tensor.size * value.tensor.storage.bits // 8, description.ddr_alignment)
    return addresses


def address_of(value: Value) -> int:
    """Return the DDR address that the address pass wrote into a value's type."""
    encoding = value.tensor.encoding
    assert isinstance(encoding, IntegerAttr), f"value '{value.name}' has no address"
    return encoding.value


def set_address(value: Value, address: int) -> None:
    """Write a DDR address into a value's type."""
    value.type = value.tensor.at(IntegerAttr(address))
