"""Cycles of transfers and tiles by the chip's timing model, and of a single task with overlap."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tpuc.api import (
    Assembler,
    Box,
    Chip,
    Command,
    DdrTensor,
    Engine,
    Instruction,
    LocalBlock,
    LocalTensor,
    Phase,
    PlacedTile,
    Shape4,
    Tile,
)

from tpuc_plan.planners.alignment import align
from tpuc_plan.tasks.buffers import StreamedTile, TileBuffers
from tpuc_plan.tasks.task import Side, TileTask

_FEW = 4
"""Number of results and blocks assumed for a tile besides its operands."""


@dataclass(frozen=True)
class Share:
    """A command of a tile. `wait`: number of the tile's commands of the other engine that must be done before it
    begins.
    """

    engine: Engine
    cycles: int
    wait: int


Shares: TypeAlias = "tuple[Share, ...]"
"""The commands of a tile in order."""


@dataclass(frozen=True)
class Conflict:
    """Byte ranges of two items of a tile in local memory, relative to their starts, and the additional cycles if both
    reach into one bank. An item is `("operand", i)`, `("result", i)`, `("scratch", name)`, or `("constant", name)`.
    """

    one: Hashable
    one_bytes: tuple[int, int]
    other: Hashable
    other_bytes: tuple[int, int]
    cycles: int


class Cycles:
    """Cycles of a chip's transfers and tiles, recorded at provisional addresses and cached by shape.

    `profiles`: timing profiles whose cycles are summed; default: the chip's first one.
    """

    def __init__(self, chip: Chip, profiles: Sequence[str] = ()) -> None:
        self.chip = chip
        self.profiles = tuple(profiles) or chip.profiles[:1]
        self._known: dict[Hashable, int] = {}
        self._by_profile: dict[tuple[str, Hashable], int] = {}
        self._conflicts: dict[Hashable, Sequence[Conflict]] = {}
        self._transferred: set[Hashable] = set()
        self._shares: dict[Hashable, Shares] = {}
        self._base = chip.description.ddr_base

    def by(self, profiles: Sequence[str]) -> Cycles:
        """Return the cycles by other profiles; both share one cache."""
        other = Cycles(self.chip, profiles)
        other._by_profile, other._conflicts = self._by_profile, self._conflicts
        other._transferred = self._transferred
        return other

    def load(self, side: Side, shape: Shape4) -> int:
        """Cycles of loading a part of an operand."""
        local, ddr = self._ends(side, shape)
        return self._once(("load", local, ddr), lambda asm: asm.load(local, ddr))

    def store(self, side: Side, shape: Shape4) -> int:
        """Cycles of storing a part of a result."""
        local, ddr = self._ends(side, shape)
        return self._once(("store", local, ddr), lambda asm: asm.store(ddr, local))

    def _ends(self, side: Side, shape: Shape4) -> tuple[LocalTensor, DdrTensor]:
        return side.local(shape), DdrTensor(self._base, shape, side.view.element_strides, side.element)

    def block(self, size: int, lanes: int, broadcast: bool) -> int:
        """Cycles of loading a block of packed constants with `size` bytes per lane."""
        if broadcast:
            block = LocalBlock(0, size, self.chip.lmem.lanes)
            return self._once(("broadcast", size), lambda asm: asm.broadcast_block(block, self._base))
        local = LocalBlock(0, size, lanes)
        return self._once(("block", lanes, size), lambda asm: asm.load_block(local, self._base))

    def compute(self, task: TileTask, tile: Tile, phase: Phase, boxes: Sequence[Box | None]) -> int:
        """Cycles of computing a tile."""
        key = _tile_key(task, tile, phase, boxes)

        def record(asm: Assembler) -> None:
            at = _LmemAddresses(self.chip)
            self._emit(task, tile, phase, boxes, asm, at)
            found = (conflict for item in asm.instructions for conflict in self.chip.bank_conflicts(item))
            pairs = ((at.find(conflict.one), at.find(conflict.other), conflict.cycles) for conflict in found)
            self._conflicts[key] = tuple(Conflict(*one, *other, cycles) for one, other, cycles in pairs)
            if asm.instructions and asm.instructions[-1].engine is Engine.DMA:
                self._transferred.add(key)

        return self._once(key, record)

    def conflicts(self, task: TileTask, tile: Tile, phase: Phase, boxes: Sequence[Box | None]) -> Sequence[Conflict]:
        """Return the items of a tile that should lie in different banks."""
        self.compute(task, tile, phase, boxes)
        return self._conflicts[_tile_key(task, tile, phase, boxes)]

    def shares(self, task: TileTask, tile: Tile, phase: Phase, boxes: Sequence[Box | None]) -> Shares:
        """Return the commands of a tile that ends with a transfer, which can overlap with the next tile. Empty for
        other tiles, whose cycles all count for the compute engine.
        """
        if not self._ends_with_transfer(task, tile, phase, boxes):
            return ()
        key = _tile_key(task, tile, phase, boxes)
        if key not in self._shares:
            asm = self.chip.assembler()
            self._emit(task, tile, phase, boxes, asm, _LmemAddresses(self.chip, is_packed=True))
            self._shares[key] = tuple(self._share(command) for command in asm.commands())
        return self._shares[key]

    def end_with_transfers(self, task: TileTask, tiles: Sequence[Tile]) -> bool:
        """True if the last command of each of these tiles is a transfer."""
        boxes = (tuple(task.boxes(tile)) for tile in tiles)
        return all(
            self._ends_with_transfer(task, tile, task.phase(tile), own) for tile, own in zip(tiles, boxes, strict=True)
        )

    def _ends_with_transfer(self, task: TileTask, tile: Tile, phase: Phase, boxes: Sequence[Box | None]) -> bool:
        self.compute(task, tile, phase, boxes)
        return _tile_key(task, tile, phase, boxes) in self._transferred

    def _share(self, command: Command) -> Share:
        return Share(command.instruction.engine, self.total([command.instruction]), command.wait)

    def _once(self, key: Hashable, record: Callable[[Assembler], None]) -> int:
        if key not in self._known:
            missing = [profile for profile in self.profiles if (profile, key) not in self._by_profile]
            if missing:
                asm = self.chip.assembler()
                record(asm)
                for profile in missing:
                    cycles = sum(self.chip.cycles(item, profile) for item in asm.instructions)
                    self._by_profile[profile, key] = cycles
            self._known[key] = sum(self._by_profile[profile, key] for profile in self.profiles)
        return self._known[key]

    def total(self, instructions: Sequence[Instruction]) -> int:
        """Sum of the cycles of instructions, without overlap."""
        return sum(self.chip.cycles(item, profile) for item in instructions for profile in self.profiles)

    def _emit(
        self, task: TileTask, tile: Tile, phase: Phase, boxes: Sequence[Box | None], asm: Assembler, at: _LmemAddresses
    ) -> None:
        """Emit a tile at spread addresses: computing in place or within one bank may take longer."""
        at.most = max(at.most, len(boxes) + _FEW)
        shapes = [task.result_box(tile, index).shape for index in range(len(task.results))]
        results = tuple(
            side.local(shape, address=at.next(("result", index), side.lane_bytes(shape)))
            for index, (side, shape) in enumerate(zip(task.results, shapes, strict=True))
        )
        lanes = self.chip.lmem.lanes
        scratch = {
            item.name: LocalBlock(at.next(("scratch", item.name), item.bytes_per_lane), item.bytes_per_lane, lanes)
            for item in task.scratch(tile)
        }
        sizes = [0 if box is None else task.operand(i).lane_bytes(box.shape) for i, box in enumerate(boxes)]
        operands = tuple(
            None
            if box is None
            else task.operand(index).local(box.shape, box.padding, at.next(("operand", index), sizes[index]))
            for index, box in enumerate(boxes)
        )
        constants = {
            name: LocalBlock(at.next(("constant", name), size), size, lanes)
            for group in task.constant_groups
            for name, (_, size) in task.group_layout(group, tile)[1].items()
        }
        task.kernel.emit(task.node, PlacedTile(tile, operands, results, constants, scratch), phase, asm)


def _tile_key(task: TileTask, tile: Tile, phase: Phase, boxes: Sequence[Box | None]) -> Hashable:
    shapes = tuple(None if box is None else (box.shape, box.padding) for box in boxes)
    extents = tuple(stop - start for start, stop in zip(tile.starts, tile.stops, strict=True))
    return ("compute", task.facts, extents, shapes, phase)


@dataclass
class _LmemAddresses:
    """Distinct aligned addresses, spread over local memory, and the item at each. `is_packed`: items lie one after the
    other instead, without overlap.
    """

    chip: Chip
    is_packed: bool = False
    starts: list[int] = field(default_factory=list[int])
    things: list[Hashable] = field(default_factory=list[Hashable])
    end: int = 0
    most: int = 16
    """Maximum number of items such that none reaches beyond local memory."""

    def next(self, thing: Hashable, size: int) -> int:
        """Return a new address."""
        lmem = self.chip.lmem
        if self.is_packed:
            self.starts.append(self.end)
            self.end += align(size, lmem.alignment)
        else:
            step = max(lmem.lane_bytes // self.most // lmem.alignment, 1) * lmem.alignment
            self.starts.append(len(self.starts) * step)
        self.things.append(thing)
        return self.starts[-1]

    def find(self, span: tuple[int, int]) -> tuple[Hashable, tuple[int, int]]:
        """Return the item at a span, and the span relative to its start."""
        index = bisect_right(self.starts, span[0]) - 1
        start = self.starts[index]
        return self.things[index], (span[0] - start, span[1] - start)


def streamed_cycles(task: TileTask, buffers: TileBuffers, cycles: Cycles) -> int:
    """Return the end of the last store, if loads of tile i+1 and stores of tile i-1 overlap with the compute of
    tile i.
    """
    dma = compute = 0  # when each engine is free
    computed: list[int] = []
    stored: list[int] = []
    steps = buffers.steps
    loads = [_loads(task, step, cycles) for step in steps]
    loaded = dma = loads[0]
    for index, step in enumerate(steps):
        begin = max(compute, loaded, stored[index - 2] if index > 1 else 0)
        if index + 1 < len(steps):
            dma = max(dma, computed[index - 1] if index else 0) + loads[index + 1]
            loaded = dma
        compute = begin + cycles.compute(task, step.tile, step.phase, step.boxes)
        computed.append(compute)
        boxes = ((side, task.result_box(step.tile, number)) for number, side in enumerate(task.results))
        store = sum(cycles.store(side, box.shape) for side, box in boxes) if step.phase.ends else 0
        if store:
            dma = max(dma, compute) + store
        stored.append(dma)
    return max(dma, compute)


def _loads(task: TileTask, step: StreamedTile, cycles: Cycles) -> int:
    boxes = ((index, step.boxes[index]) for index in step.operands)
    total = sum(cycles.load(task.operand(index), box.shape) for index, box in boxes if box is not None)
    for group in (task.constant_groups[index] for index in step.groups):
        size, lanes = task.group_layout(group, step.tile)[0], task.group_lanes(group, step.tile)
        total += cycles.block(size, lanes, group[0].broadcast)
    return total
