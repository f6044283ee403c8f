"""Copy ops that share local memory into one block, in the form of TPU-MLIR's layer groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tpuc.api import (
    ArrayAttr,
    Attribute,
    Block,
    BoolAttr,
    Box,
    DialectAttr,
    FloatAttr,
    IntegerAttr,
    Location,
    Op,
    Operation,
    ScalarType,
    TensorType,
    Type,
    Value,
)
from tpuc_ops import tpu

from tpuc_plan.regions.region import Placed
from tpuc_plan.regions.schedule import Item
from tpuc_plan.tasks.aliases import AliasSets
from tpuc_plan.tasks.pack import constant_tensors
from tpuc_plan.tasks.plan import Alias, ConcatAlias, OpPlan, SliceView
from tpuc_plan.tasks.steps import Addresses, BlockLoad, Buffer, Step, TensorLoad
from tpuc_plan.tasks.steps import Store as StoreItem
from tpuc_plan.tasks.task import MoveTask

LOADING, COMPUTING, STORING = 0, 1, 2
"""Stages of a group's pipeline."""
ATTRIBUTES: tuple[tuple[type[Op], dict[str, Attribute]], ...] = (
    (tpu.AddConst, {"f8_scale": FloatAttr(1.0, ScalarType("f64"))}),
    (tpu.MulConst, {"multiplier": IntegerAttr(1, ScalarType("si32")), "rshift": IntegerAttr(0, ScalarType("si32"))}),
    (tpu.Pad, {"with_insert_zero": BoolAttr(False)}),
    (tpu.Slice, {"hasparamConvert_axes": ArrayAttr(())}),
)
"""Attributes of TPU-MLIR's ops that ours lack, with their neutral values; TPU-MLIR adds and prints them."""


@dataclass(frozen=True)
class Spot:
    """The bytes per lane that hold a tensor, the parts in which it is produced or read, and the largest scratch
    buffer.
    """

    buffer: Buffer
    address: int
    size: int
    aligned: bool
    parts: tuple[Box, ...]
    scratch_address: int = 0
    scratch_size: int = 0


def group_info(spot: Spot | None, type_: Type, number: int, stage: int) -> DialectAttr:
    """Return `#tpu.lg<...>` with address, size, parts, number, and stage of an operation; size 0 for tensors in DDR."""
    boxes = spot.parts if spot is not None else (whole_box(type_),)
    entries: dict[str, object] = {
        "out_addr": spot.address if spot is not None else 0,
        "out_size": spot.size if spot is not None else 0,
        "buffer_addr": spot.scratch_address if spot is not None else 0,
        "buffer_size": spot.scratch_size if spot is not None else 0,
        "eu_align": str(spot is not None and spot.aligned).lower(),
        "can_merge": "false",
        "in_hslice_offset": [],
    }
    ranges = {name: _ranges(boxes, axis) for axis, name in enumerate("nchw")} | {"d": [(0, 1)]}
    for name in "ncdhw":
        entries[f"{name}_idx"] = [start for start, _ in ranges[name]]
        entries[f"{name}_slice"] = [extent for _, extent in ranges[name]]
    entries |= {"id": number, "stage": stage, "slice_idx": 0, "group_type": 0}
    return DialectAttr(f"#tpu.lg<{', '.join(f'{name} = {value}' for name, value in entries.items())}>")


def whole_box(type_: Type) -> Box:
    """Return a whole tensor as a box over n, c, h, w."""
    dims = type_.dims if isinstance(type_, TensorType) else ()
    n, c, h, *rest = (*dims, 1, 1, 1)
    return Box((0, 0, 0, 0), (n, c, h, math.prod(rest)))


def _ranges(boxes: Sequence[Box], axis: int) -> list[tuple[int, int]]:
    return list(dict.fromkeys((box.start[axis], box.shape[axis]) for box in boxes))


def with_attribute(operation: Operation, name: str, value: Attribute) -> None:
    """Set an attribute, as a field of the op if it has one of this name."""
    op: Any = operation.op
    if any(field.name == name for field in fields(op)):
        operation.op = replace(op, **{name: value})
    else:
        operation.extra_attributes[name] = value


@dataclass
class Outline:
    """Copies consecutive operations into a block, with loads and stores at the border to DDR.

    `first`: the first step of every tiled operation. `placed`: the region that contains them. `ops` and `aliases`: the
    plans of all operations, and the bytes that they share.
    """

    operations: Sequence[Operation]
    first: dict[Operation, Step]
    placed: Placed
    ops: Mapping[Operation, OpPlan]
    aliases: AliasSets
    block: Block = field(default_factory=Block)
    _inside: dict[Operation, None] = field(default_factory=dict[Operation, None])
    _local: dict[Value, Value] = field(default_factory=dict[Value, Value])
    """Maps a value to its present copy in local memory."""
    _ddr: dict[Value, Value] = field(default_factory=dict[Value, Value])
    """Maps a value that is produced here to its copy in DDR."""
    _spots: dict[Operation, Spot] = field(default_factory=dict[Operation, Spot])
    _stages: dict[Operation, int] = field(default_factory=dict[Operation, int])
    _items: dict[object, list[Operation]] = field(default_factory=dict[object, "list[Operation]"])
    """The copies of issued items: by loaded buffer, stored value, or executed operation."""

    def run(self) -> tuple[list[Value], list[Value]]:
        """Fill the block. Returns the live-out values, and the matching values of the block."""
        self._inside = dict.fromkeys(self.operations)
        for operation in self.operations:
            if operation in self.first:
                self._compute(operation, self.first[operation])
            elif not self._is_free(operation):
                copy = self._copy(operation, [self._in_ddr(value) for value in operation.operands], None)
                self._items[operation] = [copy]
                self._ddr.update(zip(operation.results, copy.results, strict=True))
        made = [value for operation in self.operations for value in operation.results]
        live_out = [value for value in made if any(user not in self._inside for user in value.users)]
        results = [self._in_ddr(value) for value in live_out]
        for number, operation in enumerate(self.block.operations):
            info = group_info(self._spots.get(operation), operation.result.type, number, self._stages[operation])
            with_attribute(operation, "ginfo", info)
        return live_out, results

    def flow(self) -> tuple[int, ...]:
        """Return the operations by time step, in the order that the program issues them: -1, those of the first step,
        -2, ...

        An operation follows the time steps of all its operands; one operation computes per time step.
        """
        return tuple(_Flow(self.block.operations, self._stages, self._items).run(self.placed.order))

    # -- copies --------------------------------------------------------------------------------------------------------

    def _compute(self, operation: Operation, step: Step) -> None:
        task, residency, addresses = step.task, step.task.residency, self.placed.addresses
        constants, packed = constant_tensors(task), _packed_spots(step, addresses)
        operands: list[Value] = []
        for index, value in enumerate(operation.operands):
            place = step.operands[index] if index < len(step.operands) else None
            if place is None:
                spot = next(packed, None) if value.is_constant else None
                operands.append(value if spot is None else self._load(value, spot, constant=True))
                continue
            layout = task.operand(index).layout
            if index in residency.preloaded:
                source = self.aliases.root(value)
                if not self._is_preloaded(source, place.buffer):
                    spot = Spot(place.buffer, addresses[place.buffer], place.buffer.size, layout == "aligned", ())
                    self._forget(source)
                    self._local[source] = self._load(self._in_ddr(source), spot, constant=False)
                operands.append(self._in_lmem(value))
            elif index in residency.resident_in:
                operands.append(self._in_lmem(value))
            else:
                parts = tuple(box for tile in task.tiles if (box := task.boxes(tile)[index]) is not None)
                spot = Spot(place.buffer, addresses[place.buffer], place.buffer.size, layout == "aligned", parts)
                operands.append(self._load(self._in_ddr(value), spot, constant=index in constants))
        copy = self._copy(operation, operands, _result_spot(step, addresses))
        self._items[operation] = [copy]
        for index, (value, inner) in enumerate(zip(operation.results, copy.results, strict=True)):
            self._local[value] = inner
            if index in residency.written_back:
                self._store(value, inner)

    def _load(self, value: Value, spot: Spot, *, constant: bool) -> Value:
        if not spot.parts:
            spot = replace(spot, parts=(whole_box(value.type),))
        op = tpu.Load(lmem_type=0 if constant else 1)
        load = Operation(op, (value,), (_local_type(value.type),), Location((f"load_{value.name}",)))
        self._items.setdefault(spot.buffer, []).append(load)
        return self._append(load, spot, LOADING).result

    def _store(self, value: Value, inner: Value) -> None:
        store = Operation(tpu.Store(), (inner,), (value.type,), Location((value.name,)))
        assert inner.defining is not None
        spot = replace(self._spots[inner.defining], scratch_address=0, scratch_size=0)
        self._items[value] = [store]
        self._ddr[value] = self._append(store, spot, STORING).result

    def _in_ddr(self, value: Value) -> Value:
        """Return the value that holds the bytes in DDR. Ops that only share bytes are copied on demand."""
        for operation in producers_of(value, lambda one: one not in self._ddr and one.defining in self._inside):
            assert self._is_free(operation), f"'{operation.name}' is read from DDR but stays in local memory"
            operands = [self._ddr.get(operand, operand) for operand in operation.operands]
            self._ddr[operation.result] = self._copy(operation, operands, None).result
        return self._ddr.get(value, value)

    def _in_lmem(self, value: Value) -> Value:
        """Return a value in local memory. Its views and concatenations are copied on demand."""
        for operation in producers_of(value, lambda one: one not in self._local):
            plan = self.ops[operation]
            assert isinstance(plan, Alias) or (isinstance(plan, ConcatAlias) and plan.in_lmem), operation.name
            operands = [self._local[operand] for operand in operation.operands]
            inner = [operand.defining for operand in operands]
            spots = [self._spots[producer] for producer in inner if producer is not None]
            first = min(spots, key=lambda spot: spot.address)
            spot_size = first.size if isinstance(plan, Alias) else first.buffer.size
            spot = Spot(first.buffer, first.address, spot_size, first.aligned, (whole_box(operation.result.type),))
            self._local[operation.result] = self._copy(operation, operands, spot).result
        return self._local[value]

    def _is_preloaded(self, source: Value, buffer: Buffer) -> bool:
        known = self._local.get(source)
        return known is not None and known.defining is not None and self._spots[known.defining].buffer is buffer

    def _forget(self, source: Value) -> None:
        """Drop the copies of a value and its views when it is loaded into another buffer."""
        self._local = {value: inner for value, inner in self._local.items() if self.aliases.root(value) is not source}

    def _is_free(self, operation: Operation) -> bool:
        """True if the operation takes no time, because its result shares bytes."""
        return isinstance(self.ops[operation], (Alias, ConcatAlias, SliceView))

    def _copy(self, operation: Operation, operands: Sequence[Value], spot: Spot | None) -> Operation:
        types = [value.type if spot is None else _local_type(value.type) for value in operation.results]
        extra = dict(operation.extra_attributes)
        for kind, entries in ATTRIBUTES:
            if isinstance(operation.op, kind):
                extra |= entries
        return self._append(Operation(operation.op, operands, types, operation.location, extra), spot, COMPUTING)

    def _append(self, operation: Operation, spot: Spot | None, stage: int) -> Operation:
        if spot is not None:
            self._spots[operation] = spot
        self._stages[operation] = stage
        return self.block.append(operation)


def producers_of(value: Value, counts: Callable[[Value], bool]) -> Iterator[Operation]:
    """Yield the operations that produce a value from values for which `counts` is false, each after its operands.

    `counts` is called again after each operation, and must then be false for its results.
    """
    waiting = [value]
    while waiting:
        producer = waiting[-1].defining if counts(waiting[-1]) else None
        before = [] if producer is None else [operand for operand in producer.operands if counts(operand)]
        waiting += reversed(before)
        if not before:
            waiting.pop()
            if producer is not None:
                yield producer


def _local_type(type_: Type) -> Type:
    return type_.at(None) if isinstance(type_, TensorType) else type_


def _packed_spots(step: Step, addresses: Addresses) -> Iterator[Spot]:
    """Yield the spots of an operation's packed constants in the kernel's order, which is that of constant operands."""
    places = {name: (buffer, offset, size) for name, buffer, offset, size, _ in step.constants}
    for constant in step.task.facts.constants:
        buffer, offset, size = places[constant.name]
        yield Spot(buffer, addresses[buffer] + offset, size, False, ())


def _result_spot(step: Step, addresses: Addresses) -> Spot:
    task, place = step.task, step.results[0]
    layout = task.results[0].layout
    size = place.buffer.size
    if 0 in task.residency.resident_out:
        size = task.results[0].lane_bytes(task.results[0].shape)
    parts = tuple(task.result_box(tile, 0) for tile in task.tiles)
    spot = Spot(place.buffer, addresses[place.buffer] + place.offset, size, layout == "aligned", parts)
    scratch = max(step.scratch, key=lambda entry: entry[2], default=None)
    return spot if scratch is None else replace(spot, scratch_address=addresses[scratch[1]], scratch_size=scratch[2])


class _Flow:
    """Computes the time steps of the operations of a block."""

    def __init__(
        self, operations: Sequence[Operation], stages: dict[Operation, int], items: dict[object, list[Operation]]
    ) -> None:
        self.numbers = {operation: number for number, operation in enumerate(operations)}
        self.stages = stages
        self.items = items
        self.issued = {operation: None for copies in items.values() for operation in copies}
        self.begun: dict[Operation, int] = {}
        self.ready: dict[Operation, int] = {}
        self.rows: dict[int, list[int]] = {}
        self.now = 1
        self.computing = 0

    def run(self, order: Sequence[Item]) -> Iterator[int]:
        """Yield minus each time step, then the numbers of the operations that begin in it."""
        for item in order:
            for operation in self.items.get(_key(item), ()):
                self._begin(operation)
        for operation in self.numbers:
            self._begin(operation)
        for position, time in enumerate(sorted(self.rows)):
            yield -1 - position
            yield from self.rows[time]

    def _begin(self, operation: Operation) -> None:
        for result in operation.results:
            for producer in producers_of(
                result, lambda one: one.defining in self.numbers and one.defining not in self.begun
            ):
                self._begin_one(producer)

    def _begin_one(self, operation: Operation) -> None:
        """Begin an operation whose operands have begun."""
        producers = [producer for value in operation.operands if (producer := value.defining) in self.numbers]
        ready = max((self.ready[producer] for producer in producers), default=1)
        if operation not in self.issued:  # shares bytes: takes no time, and is there as soon as the last operand is
            time = max((self.begun[producer] for producer in producers), default=self.now)
            self.ready[operation] = ready
        else:
            time = max(self.now, ready)
            if self.stages[operation] == COMPUTING:
                time = max(time, self.computing + 1)
                self.computing = time
            self.now = time
            self.ready[operation] = time + 1
        self.begun[operation] = time
        self.rows.setdefault(time, []).append(self.numbers[operation])


def _key(item: Item) -> object:
    """Return the key under which `Outline` stores the copy of an issued item."""
    match item:
        case TensorLoad():
            return item.place.buffer
        case BlockLoad():
            return item.buffer
        case Step():
            return item.task.operation
        case StoreItem():
            return item.value
        case MoveTask():
            return item.operation
