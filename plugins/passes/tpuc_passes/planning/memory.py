"""DDR addresses: packed constants first, then inputs, outputs and everything between, shared by lifetime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tpuc.api import (
    ChipDescription,
    Constant,
    Function,
    IntegerAttr,
    NetworkInput,
    Operation,
    TensorType,
    Value,
)

from tpuc_passes.planning.places import Places, is_free
from tpuc_passes.planning.residency import Residency
from tpuc_passes.planning.slicing import Slicing

POOL = "activations"


@dataclass(frozen=True)
class Lifetime:
    """A DDR tensor that holds `values` (one value and its aliases) from program point `first` to `last`."""

    value: Value
    first: int
    last: int
    size_bytes: int


def lifetimes(function: Function, places: Places, runs: Callable[[Operation], bool]) -> list[Lifetime]:
    """Lifetimes of all DDR tensors; what never leaves local memory is none, what shares bytes is one with its root.
    `runs`: does the operation compute on the chip?
    """
    end = len(function.operations)
    spans: dict[int, tuple[Value, int, int]] = {}

    def touch(value: Value, point: int) -> None:
        root = places.place(value).root
        _, first, last = spans.get(id(root), (root, point, point))
        spans[id(root)] = (root, min(first, point), max(last, point))

    spread = _runs(function)
    for point, operation in enumerate(function.operations):
        if isinstance(operation.op, NetworkInput):
            touch(operation.result, 0)  # the host writes all of them before anything runs
        if not runs(operation) or is_free(operation):
            continue
        residency = Residency.of(operation)
        for index, operand in enumerate(operation.operands):
            if index not in residency.kept and isinstance(operand.type, TensorType) and not _is_constant(operand):
                touch(operand, point)
                touch(operand, spread.get(point, (point, point))[1])
        for index in sorted(residency.stored):
            touch(operation.results[index], spread.get(point, (point, point))[0])
            touch(operation.results[index], point)
    for value in function.outputs:
        touch(value, end)
    return [
        Lifetime(value, first, last, value.tensor.size_bytes)
        for value, first, last in sorted(spans.values(), key=lambda span: span[1])
    ]


def _runs(function: Function) -> dict[int, tuple[int, int]]:
    """First and last point of the run that an operation is part of: its slices read and store in turn."""
    ends: dict[int, list[int]] = {}
    for point, operation in enumerate(function.operations):
        slicing = Slicing.of(operation)
        if slicing is not None:
            ends.setdefault(slicing.run, []).append(point)
    return {point: (points[0], points[-1]) for points in ends.values() for point in points}


def _is_constant(value: Value) -> bool:
    return value.defining is not None and isinstance(value.defining.op, Constant)


def boundary_addresses(function: Function, places: Places, description: ChipDescription) -> dict[int, int]:
    """Addresses, by `id`, of the inputs and then outputs that lie apart from the activations."""
    inputs = [o.result for o in function.operations if isinstance(o.op, NetworkInput)]
    roots = (places.place(value).root for value in (*inputs, *function.outputs))
    values = {id(value): value for value in roots}
    addresses = dict(zip(values, description.boundary_bases, strict=False))
    at = description.boundary_rest
    if at is not None:
        for key, value in list(values.items())[len(addresses) :]:
            addresses[key] = at
            at = align(at + value.tensor.size * value.tensor.storage.bits // 8, description.ddr_alignment)
    return addresses


def address_of(value: Value) -> int:
    """The DDR address that the address pass wrote into a value's type."""
    encoding = value.tensor.encoding
    assert isinstance(encoding, IntegerAttr), f"value '{value.name}' has no address"
    return encoding.value


def set_address(value: Value, address: int) -> None:
    """Write a DDR address into a value's type."""
    value.type = value.tensor.at(IntegerAttr(address))


def align(size_bytes: int, alignment: int) -> int:
    """Round up to a multiple of `alignment`."""
    return -(-size_bytes // alignment) * alignment
