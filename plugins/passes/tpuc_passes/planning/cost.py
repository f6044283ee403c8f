"""Cycles of transfers and tiles by the chip's timing model, and of a lone task as they overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tpuc.api import Assembler, Box, Chip, DdrTensor, LocalBlock, LocalTensor, Phase, PlacedTile, Tile

from tpuc_passes.planning.buffers import Buffers, TileStep
from tpuc_passes.planning.task import TileTask


class Cycles:
    """Cycles of a chip's transfers and tiles, each recorded once at made-up addresses and then remembered by shape."""

    def __init__(self, chip: Chip) -> None:
        self.chip = chip
        self.profile = chip.profiles[0]
        self._known: dict[Any, int] = {}
        self._base = chip.description.ddr_base

    def load(self, task: TileTask, index: int, box: Box) -> int:
        """Of loading a part of an operand."""
        view = task.space.operands[index]
        assert view is not None
        element = task.node.operand_types[index].storage
        layout = task.layouts.operands[index]
        source = DdrTensor(self._base, box.shape, view.element_strides, element)
        local = LocalTensor(0, box.shape, layout, element)
        key = ("load", box.shape, view.element_strides, element, layout)
        return self._once(key, lambda asm: asm.load(local, source))

    def store(self, task: TileTask, index: int, box: Box) -> int:
        """Of storing a part of a result."""
        view = task.space.results[index]
        element = task.node.result_types[index].storage
        layout = task.layouts.results[index]
        target = DdrTensor(self._base, box.shape, view.element_strides, element)
        local = LocalTensor(0, box.shape, layout, element)
        key = ("store", box.shape, view.element_strides, element, layout)
        return self._once(key, lambda asm: asm.store(target, local))

    def block(self, size: int, lanes: int, broadcast: bool) -> int:
        """Of loading a block of packed constants, `size` bytes for each lane."""
        if broadcast:
            block = LocalBlock(0, size, self.chip.lmem.lanes)
            return self._once(("broadcast", size), lambda asm: asm.broadcast_block(block, self._base))
        local = LocalBlock(0, size, lanes)
        return self._once(("block", lanes, size), lambda asm: asm.load_block(local, self._base))

    def compute(self, task: TileTask, tile: Tile, phase: Phase, boxes: Sequence[Box | None]) -> int:
        """Of computing a tile."""
        shapes = tuple(None if box is None else (box.shape, box.padding) for box in boxes)
        extents = tuple(stop - start for start, stop in zip(tile.starts, tile.stops, strict=True))
        key = ("compute", task.facts, extents, shapes, phase)
        return self._once(key, lambda asm: self._emit(task, tile, phase, boxes, asm))

    def _once(self, key: Any, record: Callable[[Assembler], None]) -> int:
        if key not in self._known:
            asm = self.chip.assembler()
            record(asm)
            self._known[key] = sum(self.chip.cycles(item, self.profile) for item in asm.instructions)
        return self._known[key]

    def _emit(self, task: TileTask, tile: Tile, phase: Phase, boxes: Sequence[Box | None], asm: Assembler) -> None:
        """The tile at made-up addresses that are all different: working in place may take longer."""
        at = _Addresses(self.chip)
        results = tuple(
            LocalTensor(at.next(), task.result_box(tile, index).shape, task.layouts.results[index], type_.storage)
            for index, type_ in enumerate(task.node.result_types)
        )
        lanes = self.chip.lmem.lanes
        scratch = {item.name: LocalBlock(at.next(), item.bytes_per_lane, lanes) for item in task.scratch(tile)}
        operands = tuple(
            None
            if box is None
            else LocalTensor(
                at.next(), box.shape, task.layouts.operands[index], task.node.operand_types[index].storage, box.padding
            )
            for index, box in enumerate(boxes)
        )
        constants = {
            name: LocalBlock(at.next(), size, lanes)
            for group in task.constant_groups
            for name, (_, size) in task.group_layout(group, tile)[1].items()
        }
        task.kernel.emit(task.node, PlacedTile(tile, operands, results, constants, scratch), phase, asm)


class _Addresses:
    """Aligned addresses, spread over local memory, none twice."""

    def __init__(self, chip: Chip) -> None:
        lmem = chip.lmem
        self._step = max(lmem.lane_bytes // 16 // lmem.alignment, 1) * lmem.alignment
        self._at = -self._step

    def next(self) -> int:
        """A new address."""
        self._at += self._step
        return self._at


class TaskCost:
    """Cycles of one node under the tilings that are tried."""

    def __init__(self, task: TileTask) -> None:
        self.cycles_of = Cycles(task.chip)

    def cycles(self, task: TileTask, buffers: Buffers) -> int:
        """The end of the last store when tile i+1 loads and tile i-1 stores beside the compute of tile i."""
        dma = compute = 0  # when each engine is free
        computed: list[int] = []
        stored: list[int] = []
        steps = buffers.steps
        loads = [self._loads(task, step) for step in steps]
        loaded = dma = loads[0]
        for index, step in enumerate(steps):
            begin = max(compute, loaded, stored[index - 2] if index > 1 else 0)
            if index + 1 < len(steps):
                dma = max(dma, computed[index - 1] if index else 0) + loads[index + 1]
                loaded = dma
            compute = begin + self.cycles_of.compute(task, step.tile, step.phase, step.boxes)
            computed.append(compute)
            store = self._stores(task, step)
            if store:
                dma = max(dma, compute) + store
            stored.append(dma)
        return max(dma, compute)

    def _loads(self, task: TileTask, step: TileStep) -> int:
        boxes = ((index, step.boxes[index]) for index in step.operands)
        total = sum(self.cycles_of.load(task, index, box) for index, box in boxes if box is not None)
        for group in (task.constant_groups[index] for index in step.groups):
            size, lanes = task.group_layout(group, step.tile)[0], task.group_lanes(group, step.tile)
            total += self.cycles_of.block(size, lanes, group[0].broadcast)
        return total

    def _stores(self, task: TileTask, step: TileStep) -> int:
        if not step.phase.ends:
            return 0
        return sum(
            self.cycles_of.store(task, index, task.result_box(step.tile, index))
            for index in range(len(task.node.result_types))
        )
