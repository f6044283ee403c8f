"""Which LMEM buffers a tiling needs, and in which of them each tile finds its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tpuc.api import Box, PackedConstant, Phase, Tile

from tpuc_passes.planning.task import TileTask


@dataclass(frozen=True)
class OperandLoad:
    """Load a part of operand `operand` into copy `slot` of its buffer."""

    operand: int
    box: Box
    slot: int


@dataclass(frozen=True)
class BlockLoad:
    """Load the block of constant group `group` into copy `slot`."""

    group: int
    key: tuple[tuple[int, int], ...]
    slot: int


@dataclass(frozen=True)
class TileStep:
    """What happens around one tile: `early` loads may run before the previous tile computes, `late` ones may not."""

    tile: Tile
    phase: Phase
    early: tuple[OperandLoad | BlockLoad, ...]
    late: tuple[OperandLoad | BlockLoad, ...]
    boxes: tuple[Box | None, ...]
    operand_slots: tuple[int, ...]
    group_slots: tuple[int, ...]
    result_slot: int


@dataclass
class Buffers:
    """The buffers of a task: bytes per lane and number of copies; two copies let a transfer run beside compute."""

    operand_bytes: list[int]
    group_bytes: list[int]
    result_bytes: list[int]
    scratch_bytes: dict[str, int]
    operand_copies: list[int]
    group_copies: list[int]
    result_copies: int = 1
    steps: list[TileStep] = field(default_factory=list[TileStep])
    loaded_bytes: int = 0
    stored_bytes: int = 0
    transfers: int = 0

    def sizes(self) -> list[tuple[str, int, int]]:
        """`(name, bytes per lane, copies)` of every buffer, in placement order."""
        rows = [(f"operand{i}", size, self.operand_copies[i]) for i, size in enumerate(self.operand_bytes) if size]
        rows += [(f"group{i}", size, self.group_copies[i]) for i, size in enumerate(self.group_bytes) if size]
        rows += [(f"result{i}", size, self.result_copies) for i, size in enumerate(self.result_bytes)]
        rows += [(f"scratch:{name}", size, 1) for name, size in self.scratch_bytes.items()]
        return rows


def plan_buffers(task: TileTask, double: bool = True) -> Buffers:
    """Buffers and steps of a task. `double` False keeps one copy of everything, for the tightest fit."""
    walker = _Walker(task, double)
    for tile in task.tiles:
        walker.visit(tile)
    return walker.finish()


class _Walker:
    """Follows the tiles in order and remembers what each buffer copy holds."""

    def __init__(self, task: TileTask, double: bool) -> None:
        self.task = task
        self.copies = 2 if double else 1
        operands, groups = len(task.node.operand_types), len(task.constant_groups)
        self.buffers = Buffers(
            [0] * operands, [0] * groups, [0] * len(task.node.result_types), {}, [1] * operands, [1] * groups
        )
        self.held: list[Box | None] = [None] * operands
        self.held_keys: list[tuple[tuple[int, int], ...] | None] = [None] * groups
        self.operand_slots = [0] * operands
        self.group_slots = [0] * groups
        self.operand_loads = [0] * operands
        self.group_loads = [0] * groups
        self.results_done = 0
        self.pending: list[tuple[Tile, Phase, list[OperandLoad | BlockLoad], tuple[Box | None, ...]]] = []
        self.slots: list[tuple[tuple[int, ...], tuple[int, ...], int]] = []

    def visit(self, tile: Tile) -> None:
        """Note the loads, sizes and slots of one tile."""
        task, buffers = self.task, self.buffers
        loads: list[OperandLoad | BlockLoad] = []
        boxes = tuple(task.boxes(tile))
        for index, box in enumerate(boxes):
            if box is None:
                continue
            buffers.operand_bytes[index] = max(buffers.operand_bytes[index], task.operand_bytes(index, box))
            if not _same_data(self.held[index], box):
                slot = self.operand_loads[index] % self.copies
                self.operand_loads[index] += 1
                self.operand_slots[index] = slot
                loads.append(OperandLoad(index, box, slot))
                buffers.loaded_bytes += _bytes_of(task, index, box)
                buffers.transfers += 1
            self.held[index] = box
        for index, group in enumerate(task.constant_groups):
            self._visit_group(index, group, tile, loads)
        phase = task.phase(tile)
        for index in range(len(buffers.result_bytes)):
            box = task.result_box(tile, index)
            buffers.result_bytes[index] = max(buffers.result_bytes[index], task.result_bytes(index, box))
            if phase.ends:
                n, c, h, w = box.shape
                buffers.stored_bytes += n * c * h * w * task.node.result_types[index].storage.bits // 8
                buffers.transfers += 1
        for scratch in task.scratch(tile):
            known = buffers.scratch_bytes.get(scratch.name, 0)
            buffers.scratch_bytes[scratch.name] = max(known, scratch.bytes_per_lane)
        self.pending.append((tile, phase, loads, boxes))
        self.slots.append((tuple(self.operand_slots), tuple(self.group_slots), self.results_done % self.copies))
        if phase.ends:
            self.results_done += 1

    def _visit_group(
        self, index: int, group: Sequence[PackedConstant], tile: Tile, loads: list[OperandLoad | BlockLoad]
    ) -> None:
        task, buffers = self.task, self.buffers
        size, _ = task.group_layout(group, tile)
        buffers.group_bytes[index] = max(buffers.group_bytes[index], size)
        key = task.constant_key(group, tile)
        if self.held_keys[index] != key:
            slot = self.group_loads[index] % self.copies
            self.group_loads[index] += 1
            self.group_slots[index] = slot
            loads.append(BlockLoad(index, key, slot))
            buffers.loaded_bytes += size * task.group_lanes(group, tile)
            buffers.transfers += 1
        self.held_keys[index] = key

    def finish(self) -> Buffers:
        """Settle the number of copies and split loads into early and late ones."""
        buffers = self.buffers
        buffers.operand_copies = [min(self.copies, max(count, 1)) for count in self.operand_loads]
        buffers.group_copies = [min(self.copies, max(count, 1)) for count in self.group_loads]
        buffers.result_copies = min(self.copies, max(self.results_done, 1))
        for (tile, phase, loads, boxes), (operands, groups, result) in zip(self.pending, self.slots, strict=True):
            late = tuple(load for load in loads if self._overwrites(load))
            early = tuple(load for load in loads if load not in late)
            buffers.steps.append(TileStep(tile, phase, early, late, boxes, operands, groups, result))
        return buffers

    def _overwrites(self, load: OperandLoad | BlockLoad) -> bool:
        """Would the load destroy what the previous tile still needs?"""
        count = self.operand_loads[load.operand] if isinstance(load, OperandLoad) else self.group_loads[load.group]
        return self.copies == 1 and count > 1


def _same_data(held: Box | None, box: Box) -> bool:
    return held is not None and held.start == box.start and held.shape == box.shape


def _bytes_of(task: TileTask, index: int, box: Box) -> int:
    n, c, h, w = box.shape
    return n * c * h * w * task.node.operand_types[index].storage.bits // 8
