"""Build the compute steps of a program, and the live ranges of their local buffers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tpuc.api import Box, DdrTensor, LocalBlock, LocalTensor, Phase, PlacedTile, Tile, Value

from tpuc_plan.tasks.aliases import AliasSets, Concat, concat_start
from tpuc_plan.tasks.cost import Cycles, Shares
from tpuc_plan.tasks.pack import Block, blocks_of, constant_tensors
from tpuc_plan.tasks.task import Side, TileTask


@dataclass(eq=False)
class BankConflict:
    """Byte ranges of a buffer and of another one, and the additional cycles if both reach into one bank."""

    own: tuple[int, int]
    other: Buffer
    others: tuple[int, int]
    cycles: int


@dataclass(eq=False)
class Buffer:
    """Bytes in every lane that hold one item from step `first` to step `last`, both included.

    `above`: a buffer that must lie at a lower address. `conflicts`: buffers that should lie in other banks.
    """

    size: int
    first: int
    last: int
    above: Buffer | None = None
    conflicts: list[BankConflict] = field(default_factory=list[BankConflict])


Addresses: TypeAlias = Mapping[Buffer, int]
"""Start address of each buffer, the same in every lane."""


@dataclass(frozen=True)
class Place:
    """A tensor at an offset in a buffer."""

    buffer: Buffer
    offset: int
    tensor: LocalTensor

    def local(self, addresses: Addresses) -> LocalTensor:
        """Return the tensor at its address."""
        return replace(self.tensor, address=addresses[self.buffer] + self.offset)


@dataclass(frozen=True, eq=False)
class TensorLoad:
    """Load a part of a tensor; the address in `source` is relative to its start. `value`: the loaded value, None for a
    constant at byte `constant` of the task's packed ones. `writers`: values that must be stored before.
    """

    task: TileTask
    value: Value | None
    writers: tuple[Value, ...]
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
    """Store a part of a result; the address in `target` is relative to its start."""

    value: Value
    place: Place
    target: DdrTensor
    cycles: int


@dataclass(frozen=True, eq=False)
class Step:
    """One tile of one task, with its loads and stores."""

    task: TileTask
    tile: Tile
    phase: Phase
    loads: tuple[TensorLoad | BlockLoad, ...]
    stores: tuple[Store, ...]
    operands: tuple[Place | None, ...]
    results: tuple[Place, ...]
    constants: tuple[tuple[str, Buffer, int, int, int], ...]
    """Name, buffer, offset, bytes per lane, and number of lanes."""
    scratch: tuple[tuple[str, Buffer, int], ...]
    cycles: int
    shares: Shares = ()
    """Its commands, if it ends with a transfer and runs a stripe ahead of the steps that wait for it."""

    def placed(self, addresses: Addresses) -> PlacedTile:
        """Return the tile with addresses, as the kernel sees it."""
        lanes = self.task.chip.lmem.lanes
        return PlacedTile(
            self.tile,
            tuple(None if place is None else place.local(addresses) for place in self.operands),
            tuple(place.local(addresses) for place in self.results),
            {name: LocalBlock(addresses[buffer] + at, size, count) for name, buffer, at, size, count in self.constants},
            {name: LocalBlock(addresses[buffer], size, lanes) for name, buffer, size in self.scratch},
        )


@dataclass
class Steps:
    """Consecutive steps without a host function between them, and all their buffers."""

    steps: list[Step] = field(default_factory=list[Step])
    buffers: list[Buffer] = field(default_factory=list[Buffer])

    @property
    def live(self) -> dict[Buffer, tuple[int, int]]:
        """The steps at which buffers are in use, regardless of the order of transfers."""
        return {buffer: (buffer.first, buffer.last) for buffer in self.buffers}


Located: TypeAlias = tuple[Buffer, int]
"""A buffer, and an offset in it."""


class StepBuilder:
    """Turns tasks into steps. Resident values are found by their alias root.

    `lmem_concats`: concatenations that happen in local memory.
    """

    def __init__(self, cycles: Cycles, aliases: AliasSets, lmem_concats: Sequence[Concat] = ()) -> None:
        self.result = Steps()
        self.aliases = aliases
        self.cycles = cycles
        self._joined = {part: (concat.whole, start) for concat in lmem_concats for part, start in concat.parts}
        self._resident: dict[Value, Located] = {}

    def add(self, task: TileTask) -> None:
        """Append the steps of a task."""
        for step in TaskSteps(self, task, self.cycles).run():
            self.result.steps.append(step)

    @property
    def now(self) -> int:
        """The index of the next step."""
        return len(self.result.steps)

    def buffer(self, size: int, above: Buffer | None = None) -> Buffer:
        """Return a new buffer that the next step uses."""
        buffer = Buffer(size, self.now, self.now, above=above)
        self.result.buffers.append(buffer)
        return buffer

    def make_resident(self, value: Value, side: Side) -> None:
        """Create a buffer for a value that later steps use; a part of a concatenation goes into the buffer of the
        whole.
        """
        if value not in self._joined:
            self._resident[value] = (self.buffer(side.lane_bytes(side.shape)), 0)
            return
        joined, at = self._joined[value]
        _, _, h, w = side.shape
        extents = (1, joined.tensor.size // (h * w), h, w)
        start = concat_start(side.shape, at)
        part = side.part(extents, start, side.shape) if start is not None else None
        assert part is not None, "only addressable parts are put together in local memory"
        if joined not in self._resident:
            self._resident[joined] = (self.buffer(side.lane_bytes(extents)), 0)
        self._resident[value] = (self._resident[joined][0], part[0])

    def resident(self, value: Value) -> Located:
        """Return the buffer of a resident value and the offset in it; extends its live range to the next step."""
        buffer, offset = self._resident[value]
        buffer.last = max(buffer.last, self.now)
        return buffer, offset


class TaskSteps:
    """Builds the steps of one task, and tracks the buffers that consecutive tiles share."""

    def __init__(self, builder: StepBuilder, task: TileTask, cycles: Cycles) -> None:
        self.builder = builder
        self.task = task
        self.residency = task.residency
        self.cycles = cycles
        self.blocks = blocks_of(task)
        self.tensors = constant_tensors(task)
        self.loaded: list[tuple[Box, Buffer] | None] = [None] * len(task.facts.operands)
        self.loaded_blocks: list[tuple[Block, Buffer] | None] = [None] * len(task.constant_groups)
        self.results: list[tuple[Buffer, int] | None] = [None] * len(task.results)
        self.scratch: dict[str, Buffer] = {}
        self.loads: list[TensorLoad | BlockLoad] = []

    def run(self) -> Iterator[Step]:
        """Yield all steps in order."""
        task = self.task
        for index, value in enumerate(task.operation.results):
            if index in self.residency.resident_out:
                self.builder.make_resident(value, task.results[index])
                self.results[index] = self.builder.resident(value)
        for tile in task.own_tiles:
            yield self.step(tile)

    def step(self, tile: Tile) -> Step:
        """Return the step of one tile."""
        task = self.task
        self.loads = []
        phase = task.phase(tile)
        boxes = tuple(task.boxes(tile))
        operands = tuple(None if box is None else self.operand(index, box) for index, box in enumerate(boxes))
        constants = tuple(entry for index in range(len(task.constant_groups)) for entry in self.block(index, tile))
        results = tuple(self.result(index, tile, phase) for index in range(len(task.results)))
        scratch = tuple(self.working_memory(tile, phase, results))
        stores = tuple(self.stores(tile, results)) if phase.ends else ()
        conflicts = self.cycles.conflicts(task, tile, phase, boxes)
        located = self.located(operands, results, constants, scratch) if conflicts else {}
        for conflict in conflicts:
            one, other = located[conflict.one], located[conflict.other]
            add_bank_conflict(one, conflict.one_bytes, other, conflict.other_bytes, conflict.cycles)
        cycles = self.cycles.compute(task, tile, phase, boxes)
        return Step(task, tile, phase, tuple(self.loads), stores, operands, results, constants, scratch, cycles)

    @staticmethod
    def located(
        operands: Sequence[Place | None],
        results: Sequence[Place],
        constants: Sequence[tuple[str, Buffer, int, int, int]],
        scratch: Sequence[tuple[str, Buffer, int]],
    ) -> dict[Hashable, Located]:
        """Return where each item of a tile lies in local memory, keyed as in `Conflict`."""
        found: dict[Hashable, Located] = {}
        for kind, places in (("operand", operands), ("result", results)):
            found.update(
                ((kind, i), (place.buffer, place.offset)) for i, place in enumerate(places) if place is not None
            )
        found.update((("constant", name), (buffer, offset)) for name, buffer, offset, _, _ in constants)
        found.update((("scratch", name), (buffer, 0)) for name, buffer, _ in scratch)
        return found

    def operand(self, index: int, box: Box) -> Place:
        task, residency = self.task, self.residency
        side = task.operand(index)
        tensor = side.local(box.shape, box.padding)
        if index in residency.resident_in or index in residency.preloaded:
            value = self.builder.aliases.root(task.operation.operands[index])
            if index in residency.preloaded and self.loaded[index] is None:
                self.builder.make_resident(value, side)
                buffer, _ = self.builder.resident(value)
                self.load(index, side.whole, buffer)
                self.loaded[index] = (side.whole, buffer)
            part = side.part(side.shape, box.start, box.shape)
            assert part is not None, "only addressable parts are resident"
            buffer, base = self.builder.resident(value)
            return Place(buffer, base + part[0], replace(tensor, strides=part[1]))
        known = self.loaded[index]
        if known is not None and (known[0].start, known[0].shape) == (box.start, box.shape):
            known[1].last = self.builder.now
            return Place(known[1], 0, tensor)
        buffer = self.builder.buffer(side.lane_bytes(box.shape))
        self.load(index, box, buffer)
        self.loaded[index] = (box, buffer)
        return Place(buffer, 0, tensor)

    def load(self, index: int, box: Box, buffer: Buffer) -> None:
        task = self.task
        side = task.operand(index)
        constant = self.tensors.get(index)
        value = None if constant is not None else task.operation.operands[index]
        writers = () if value is None else tuple(self.builder.aliases.writers(value))
        place, cycles = Place(buffer, 0, side.local(box.shape)), self.cycles.load(side, box.shape)
        self.loads.append(TensorLoad(task, value, writers, constant or 0, place, side.ddr(box), cycles))

    def block(self, index: int, tile: Tile) -> Iterator[tuple[str, Buffer, int, int, int]]:
        task = self.task
        block = self.blocks[index, task.constant_key(task.constant_groups[index], tile)]
        known = self.loaded_blocks[index]
        if known is not None and known[0] is block:
            buffer = known[1]
            buffer.last = self.builder.now
        else:
            buffer = self.builder.buffer(block.bytes_per_lane)
            cycles = self.cycles.block(block.bytes_per_lane, block.lanes, block.broadcast)
            self.loads.append(BlockLoad(task, buffer, block, cycles))
            self.loaded_blocks[index] = (block, buffer)
        lanes = task.chip.lmem.lanes if block.broadcast else block.lanes
        for name, (offset, size) in block.places.items():
            yield name, buffer, offset, size, lanes

    def result(self, index: int, tile: Tile, phase: Phase) -> Place:
        task = self.task
        box, side = task.result_box(tile, index), task.results[index]
        tensor = side.local(box.shape)
        known = self.results[index]
        if index in self.residency.resident_out:
            assert known is not None
            part = side.part(side.shape, box.start, box.shape)
            assert part is not None, "only addressable parts are resident"
            buffer, base = known
            place = Place(buffer, base + part[0], replace(tensor, strides=part[1]))
        else:
            if phase.starts or known is None:
                known = self.results[index] = (self.builder.buffer(side.lane_bytes(box.shape)), 0)
            place = Place(known[0], 0, tensor)
        place.buffer.last = max(place.buffer.last, self.builder.now)
        return place

    def working_memory(self, tile: Tile, phase: Phase, results: Sequence[Place]) -> Iterator[tuple[str, Buffer, int]]:
        for item in self.task.scratch(tile):
            known = self.scratch.get(item.name)
            if known is None or phase.starts or known.size < item.bytes_per_lane:
                above = results[-1].buffer if item.above_results else None
                known = self.scratch[item.name] = self.builder.buffer(item.bytes_per_lane, above)
            known.last = self.builder.now
            yield item.name, known, item.bytes_per_lane

    def stores(self, tile: Tile, results: Sequence[Place]) -> Iterator[Store]:
        task = self.task
        for index, (value, place) in enumerate(zip(task.operation.results, results, strict=True)):
            if index in self.residency.written_back:
                box, side = task.result_box(tile, index), task.results[index]
                yield Store(value, place, side.ddr(box), self.cycles.store(side, box.shape))


def add_bank_conflict(
    one: Located, one_bytes: tuple[int, int], other: Located, other_bytes: tuple[int, int], cycles: int
) -> None:
    """Record the cost if bytes of two items reach into one bank."""
    if one[0] is other[0]:
        return
    sides = [
        (buffer, (offset + start, offset + end))
        for (buffer, offset), (start, end) in ((one, one_bytes), (other, other_bytes))
    ]
    for (buffer, own), (partner, others) in (sides, sides[::-1]):
        known = (
            item for item in buffer.conflicts if item.other is partner and (item.own, item.others) == (own, others)
        )
        item = next(known, None)
        if item is None:
            buffer.conflicts.append(BankConflict(own, partner, others, cycles))
        else:
            item.cycles += cycles
