"""DDR addresses: packed constants first, then inputs, outputs and everything between, shared by lifetime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tpuc.api import (
    BufferInfo,
    ChipDescription,
    Constant,
    Function,
    IntegerAttr,
    NetworkInput,
    Operation,
    Planner,
    PoolInfo,
    TensorType,
    Value,
)

from tpuc_passes.planning.places import Places, is_free
from tpuc_passes.planning.residency import Residency

POOL = "activations"


@dataclass(frozen=True)
class Lifetime:
    """A DDR tensor that holds `values` (one value and its aliases) from program point `first` to `last`."""

    value: Value
    first: int
    last: int
    size_bytes: int


@dataclass
class MemoryPlan:
    """Addresses in bytes. `peak_bytes` of the activations against `bound_bytes`, the most that is live at once."""

    weights_address: int = 0
    weights_bytes: int = 0
    activations_address: int = 0
    activations_bytes: int = 0
    bound_bytes: int = 0
    addresses: dict[str, int] = field(default_factory=dict[str, int])


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

    for point, operation in enumerate(function.operations):
        if isinstance(operation.op, NetworkInput):
            touch(operation.result, point)
        if not runs(operation) or is_free(operation):
            continue
        residency = Residency.of(operation)
        for index, operand in enumerate(operation.operands):
            if index not in residency.kept and isinstance(operand.type, TensorType) and not _is_constant(operand):
                touch(operand, point)
        for index in sorted(residency.stored):
            touch(operation.results[index], point)
    for value in function.outputs:
        touch(value, end)
    return [
        Lifetime(value, first, last, value.tensor.size_bytes)
        for value, first, last in sorted(spans.values(), key=lambda span: span[1])
    ]


def _is_constant(value: Value) -> bool:
    return value.defining is not None and isinstance(value.defining.op, Constant)


def boundary_addresses(function: Function, places: Places, description: ChipDescription) -> dict[int, int]:
    """Addresses, by `id`, of the inputs and then outputs that have a memory of their own."""
    inputs = [o.result for o in function.operations if isinstance(o.op, NetworkInput)]
    roots = (places.place(value).root for value in (*inputs, *function.outputs))
    values = {id(value): value for value in roots}
    return dict(zip(values, description.boundary_bases, strict=False))


def plan_activations(
    spans: Sequence[Lifetime], description: ChipDescription, planner: Planner
) -> tuple[dict[int, int], int, int]:
    """Byte offset of every lifetime's value (by `id`), the peak, and the most that is live at once."""
    names = [f"{index}" for index in range(len(spans))]
    aligned = [align(span.size_bytes, description.ddr_alignment) for span in spans]
    buffers = [
        BufferInfo(
            name,
            size,
            description.ddr_alignment,
            frozenset(
                other_name
                for other_name, other in zip(names, spans, strict=True)
                if other is not span and other.first <= span.last and span.first <= other.last
            ),
            (POOL,),
        )
        for name, span, size in zip(names, spans, aligned, strict=True)
    ]
    plan = planner.plan(buffers, [PoolInfo(POOL, None, description.ddr_alignment)])
    offsets = {id(span.value): plan[name].offset for name, span in zip(names, spans, strict=True)}
    peak = max((plan[name].offset + size for name, size in zip(names, aligned, strict=True)), default=0)
    points = sorted({span.first for span in spans})
    bound = max(
        (
            sum(size for span, size in zip(spans, aligned, strict=True) if span.first <= point <= span.last)
            for point in points
        ),
        default=0,
    )
    return offsets, peak, bound


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
