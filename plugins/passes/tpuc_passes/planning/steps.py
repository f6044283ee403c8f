"""The compute steps of a program, and which local buffers each of them needs and for how long."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tpuc.api import Box, DdrTensor, LocalBlock, LocalTensor, Phase, PlacedTile, Shape4, Tile, Value, View

from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.pack import Block, blocks_of, constant_tensors
from tpuc_passes.planning.places import Places, merged_start, origin
from tpuc_passes.planning.residency import Residency
from tpuc_passes.planning.task import TileTask
from tpuc_passes.planning.whole import result_part


@dataclass(eq=False)
class Apart:
    """Bytes of a buffer and of another one that had better not reach into one bank: it costs so many cycles."""

    own: tuple[int, int]
    other: Buffer
    others: tuple[int, int]
    cycles: int


@dataclass(eq=False)
class Buffer:
    """Bytes in every lane that hold one thing from step `first` to step `last`, both included.

    `above`: a buffer that must lie at a lower address. `apart`: what had better lie in other banks.
    """

    size: int
    first: int
    last: int
    address: int = -1
    above: Buffer | None = None
    apart: list[Apart] = field(default_factory=list[Apart])


@dataclass(frozen=True)
class Place:
    """A tensor at an offset in a buffer."""

    buffer: Buffer
    offset: int
    tensor: LocalTensor

    def local(self) -> LocalTensor:
        """The tensor at its address."""
        return replace(self.tensor, address=self.buffer.address + self.offset)


@dataclass(frozen=True, eq=False)
class TensorLoad:
    """Load a part of a tensor, `source` with an address relative to its start. `value`: whose bytes they are, None
    for a constant at byte `constant` of the task's packed ones. `writers`: by `id`, the values to be stored first.
    """

    task: TileTask
    value: Value | None
    writers: tuple[int, ...]
    constant: int
    place: Place
    source: DdrTensor
    cycles: int


@dataclass(frozen=True, eq=False)
class BlockLoad:
    """Load one block of a task's packed constants."""

    task: TileTask
    buffer: Buffer
    block: Block
    cycles: int


@dataclass(frozen=True, eq=False)
class Store:
    """Store a part of a result, `target` with an address relative to its start."""

    value: Value
    place: Place
    target: DdrTensor
    cycles: int


@dataclass(frozen=True, eq=False)
class Step:
    """One tile of one task with its loads and its stores; buffers have addresses once they are placed."""

    task: TileTask
    tile: Tile
    phase: Phase
    loads: tuple[TensorLoad | BlockLoad, ...]
    stores: tuple[Store, ...]
    operands: tuple[Place | None, ...]
    results: tuple[Place, ...]
    constants: tuple[tuple[str, Buffer, int, int, int], ...]
    """Name, buffer, offset, bytes per lane and lanes."""
    scratch: tuple[tuple[str, Buffer, int], ...]
    cycles: int

    def placed(self) -> PlacedTile:
        """The tile as the kernel sees it."""
        lanes = self.task.chip.lmem.lanes
        return PlacedTile(
            self.tile,
            tuple(None if place is None else place.local() for place in self.operands),
            tuple(place.local() for place in self.results),
            {name: LocalBlock(buffer.address + at, size, count) for name, buffer, at, size, count in self.constants},
            {name: LocalBlock(buffer.address, size, lanes) for name, buffer, size in self.scratch},
        )


@dataclass
class Steps:
    """Consecutive steps without an interruption by the host, and all their buffers."""

    steps: list[Step] = field(default_factory=list[Step])
    buffers: list[Buffer] = field(default_factory=list[Buffer])


class StepBuilder:
    """Turns tasks into steps. A value that stays in local memory is found again by its origin."""

    def __init__(self, cycles: Cycles, places: Places) -> None:
        self.result = Steps()
        self.places = places
        self._cycles = cycles
        self._kept: dict[int, tuple[Buffer, int]] = {}

    def add(self, task: TileTask, residency: Residency) -> Iterator[Step]:
        """Append the steps of a task, one by one."""
        for step in TaskSteps(self, task, residency, self._cycles).run():
            yield self.append(step)

    def append(self, step: Step) -> Step:
        """Append one step."""
        self.result.steps.append(step)
        return step

    @property
    def now(self) -> int:
        """The index of the next step."""
        return len(self.result.steps)

    def buffer(self, size: int, above: Buffer | None = None) -> Buffer:
        """A new buffer that is used by the next step."""
        buffer = Buffer(size, self.now, self.now, above=above)
        self.result.buffers.append(buffer)
        return buffer

    def keep(self, value: Value, task: TileTask, layout: str, shape: Shape4) -> None:
        """Make a buffer for a value that later steps will find; a part of an assembled value goes into that one's."""
        lmem, item = task.chip.lmem, value.tensor.storage.bits // 8
        assembly = self.places.assemblies.get(id(value))
        if assembly is None:
            self._kept[id(value)] = (self.buffer(lmem.tensor_bytes(layout, shape, item)), 0)
            return
        merge, position = assembly
        whole = (1, merge.whole.tensor.size // (shape[2] * shape[3]), shape[2], shape[3])
        start = merged_start(shape, merge.parts[position][1])
        offset = lmem.part_offset(layout, whole, item, start, shape) if start is not None else None
        assert offset is not None, "only addressable parts are assembled in local memory"
        if id(merge.whole) not in self._kept:
            self._kept[id(merge.whole)] = (self.buffer(lmem.tensor_bytes(layout, whole, item)), 0)
        self._kept[id(value)] = (self._kept[id(merge.whole)][0], offset)

    def kept(self, value: Value) -> tuple[Buffer, int]:
        """The buffer of a value that stayed, and where it lies in there; the next step uses it."""
        buffer, offset = self._kept[id(value)]
        buffer.last = max(buffer.last, self.now)
        return buffer, offset


Held: TypeAlias = tuple[Buffer, int]
"""A buffer, and where in it something lies."""


class TaskSteps:
    """The steps of one task; remembers what consecutive tiles share."""

    def __init__(self, builder: StepBuilder, task: TileTask, residency: Residency, cycles: Cycles) -> None:
        self.builder = builder
        self.task = task
        self.residency = residency
        self.cycles = cycles
        self.blocks = blocks_of(task)
        self.tensors = constant_tensors(task)
        operands = len(task.node.operand_types)
        self.held: list[tuple[Box, Buffer] | None] = [None] * operands
        self.held_blocks: list[tuple[Block, Buffer] | None] = [None] * len(task.constant_groups)
        self.results: list[tuple[Buffer, int] | None] = [None] * len(task.node.result_types)
        self.scratch: dict[str, Buffer] = {}
        self.loads: list[TensorLoad | BlockLoad] = []

    def run(self) -> Iterator[Step]:
        """All steps in order."""
        task, residency = self.task, self.residency
        for index, value in enumerate(task.operation.results):
            if index in residency.held:
                self.builder.keep(value, task, task.layouts.results[index], task.space.results[index].shape)
                self.results[index] = self.builder.kept(value)
        for tile in task.tiles:
            yield self.step(tile)

    def step(self, tile: Tile) -> Step:
        """The step of one tile."""
        task = self.task
        self.loads = []
        phase = task.phase(tile)
        boxes = tuple(task.boxes(tile))
        operands = tuple(None if box is None else self.operand(index, box) for index, box in enumerate(boxes))
        constants = tuple(entry for index in range(len(task.constant_groups)) for entry in self.block(index, tile))
        results = tuple(self.result(index, tile, phase) for index in range(len(task.node.result_types)))
        scratch = tuple(self.working_memory(tile, phase, results))
        stores = tuple(self.stores(tile, results)) if phase.ends else ()
        conflicts = self.cycles.conflicts(task, tile, phase, boxes)
        things = self.things(operands, results, constants, scratch) if conflicts else {}
        for conflict in conflicts:
            one, other = things[conflict.one], things[conflict.other]
            keep_apart(one, conflict.one_bytes, other, conflict.other_bytes, conflict.cycles)
        cycles = self.cycles.compute(task, tile, phase, boxes)
        return Step(task, tile, phase, tuple(self.loads), stores, operands, results, constants, scratch, cycles)

    @staticmethod
    def things(
        operands: Sequence[Place | None],
        results: Sequence[Place],
        constants: Sequence[tuple[str, Buffer, int, int, int]],
        scratch: Sequence[tuple[str, Buffer, int]],
    ) -> dict[Hashable, Held]:
        """Where everything that a tile has in local memory lies, by the names that `Conflict` has for it."""
        found: dict[Hashable, Held] = {}
        for kind, places in (("operand", operands), ("result", results)):
            found.update(
                ((kind, i), (place.buffer, place.offset)) for i, place in enumerate(places) if place is not None
            )
        found.update((("constant", name), (buffer, offset)) for name, buffer, offset, _, _ in constants)
        found.update((("scratch", name), (buffer, 0)) for name, buffer, _ in scratch)
        return found

    def operand(self, index: int, box: Box) -> Place:
        task, residency = self.task, self.residency
        element = task.node.operand_types[index].storage
        layout = task.layouts.operands[index]
        tensor = LocalTensor(0, box.shape, layout, element, box.padding)
        view = task.space.operands[index]
        assert view is not None
        if index in residency.kept or index in residency.fetched:
            value = origin(task.operation.operands[index])
            if index in residency.fetched and self.held[index] is None:
                whole = Box((0, 0, 0, 0), view.shape)
                self.builder.keep(value, task, layout, view.shape)
                buffer, _ = self.builder.kept(value)
                self.load(index, whole, buffer)
                self.held[index] = (whole, buffer)
            offset, strides = addressed(task, index, box)
            buffer, base = self.builder.kept(value)
            return Place(buffer, base + offset, replace(tensor, strides=strides))
        held = self.held[index]
        if held is not None and (held[0].start, held[0].shape) == (box.start, box.shape):
            held[1].last = self.builder.now
            return Place(held[1], 0, tensor)
        buffer = self.builder.buffer(task.operand_bytes(index, box))
        self.load(index, box, buffer)
        self.held[index] = (box, buffer)
        return Place(buffer, 0, tensor)

    def load(self, index: int, box: Box, buffer: Buffer) -> None:
        task = self.task
        view = task.space.operands[index]
        assert view is not None
        element = task.node.operand_types[index].storage
        place = Place(buffer, 0, LocalTensor(0, box.shape, task.layouts.operands[index], element))
        source = ddr_part(task.operation.operands[index], view, box)
        constant = self.tensors.get(index)
        value = None if constant is not None else task.operation.operands[index]
        writers = () if value is None else tuple(id(writer) for writer in self.builder.places.writers(value))
        cycles = self.cycles.load(task, index, box)
        self.loads.append(TensorLoad(task, value, writers, constant or 0, place, source, cycles))

    def block(self, index: int, tile: Tile) -> Iterator[tuple[str, Buffer, int, int, int]]:
        task = self.task
        block = self.blocks[index, task.constant_key(task.constant_groups[index], tile)]
        held = self.held_blocks[index]
        if held is not None and held[0] is block:
            buffer = held[1]
            buffer.last = self.builder.now
        else:
            buffer = self.builder.buffer(block.bytes_per_lane)
            cycles = self.cycles.block(block.bytes_per_lane, block.lanes, block.broadcast)
            self.loads.append(BlockLoad(task, buffer, block, cycles))
            self.held_blocks[index] = (block, buffer)
        lanes = task.chip.lmem.lanes if block.broadcast else block.lanes
        for name, (offset, size) in block.places.items():
            yield name, buffer, offset, size, lanes

    def result(self, index: int, tile: Tile, phase: Phase) -> Place:
        task = self.task
        box = task.result_box(tile, index)
        element = task.node.result_types[index].storage
        layout = task.layouts.results[index]
        tensor = LocalTensor(0, box.shape, layout, element)
        known = self.results[index]
        if index in self.residency.held:
            assert known is not None
            part = result_part(task, index, box)
            assert part is not None, "only addressable parts stay in local memory"
            buffer, base = known
            place = Place(buffer, base + part[0], replace(tensor, strides=part[1]))
        else:
            if phase.starts or known is None:
                known = self.results[index] = (self.builder.buffer(task.result_bytes(index, box)), 0)
            place = Place(known[0], 0, tensor)
        place.buffer.last = max(place.buffer.last, self.builder.now)
        return place

    def working_memory(self, tile: Tile, phase: Phase, results: Sequence[Place]) -> Iterator[tuple[str, Buffer, int]]:
        for item in self.task.scratch(tile):
            known = self.scratch.get(item.name)
            if known is None or phase.starts or known.size < item.bytes_per_lane:
                above = results[-1].buffer if item.behind else None
                known = self.scratch[item.name] = self.builder.buffer(item.bytes_per_lane, above)
            known.last = self.builder.now
            yield item.name, known, item.bytes_per_lane

    def stores(self, tile: Tile, results: Sequence[Place]) -> Iterator[Store]:
        task = self.task
        for index, (value, place) in enumerate(zip(task.operation.results, results, strict=True)):
            if index in self.residency.stored:
                box = task.result_box(tile, index)
                target = ddr_part(value, task.space.results[index], box)
                yield Store(value, place, target, self.cycles.store(task, index, box))


def addressed(task: TileTask, index: int, box: Box) -> tuple[int, Shape4 | None]:
    """Offset and strides of a part of an operand that lies whole in local memory; raises ValueError where the kernel
    cannot address it.
    """
    view = task.space.operands[index]
    assert view is not None
    lmem, layout = task.chip.lmem, task.layouts.operands[index]
    item = task.node.operand_types[index].storage.bits // 8
    offset = lmem.part_offset(layout, view.shape, item, box.start, box.shape)
    if offset is not None:
        return offset, None
    part = lmem.part_strides(layout, view.shape, item, box.start, box.shape)
    if part is None or index not in task.layouts.strided:
        raise ValueError(f"{task.node.name}: part {box} of operand {index} cannot be addressed")
    return part


def keep_apart(one: Held, one_bytes: tuple[int, int], other: Held, other_bytes: tuple[int, int], cycles: int) -> None:
    """Note that bytes of two things had better not reach into one bank."""
    if one[0] is other[0]:
        return
    sides = [
        (buffer, (offset + start, offset + end))
        for (buffer, offset), (start, end) in ((one, one_bytes), (other, other_bytes))
    ]
    for (buffer, own), (partner, others) in (sides, sides[::-1]):
        known = (item for item in buffer.apart if item.other is partner and (item.own, item.others) == (own, others))
        item = next(known, None)
        if item is None:
            buffer.apart.append(Apart(own, partner, others, cycles))
        else:
            item.cycles += cycles


def ddr_part(value: Value, view: View, box: Box) -> DdrTensor:
    """The part `box` of a value, its address counted from the value's."""
    strides = view.element_strides
    element = value.tensor.storage
    offset = sum(start * stride for start, stride in zip(box.start, strides, strict=True))
    return DdrTensor(offset * (element.bits // 8), box.shape, strides, element)
