"""Estimated cycles of a task under a tiling: transfers and compute by the chip's timing model, as they overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpuc.api import Box, DdrTensor, LocalBlock, LocalTensor, PlacedTile

from tpuc_passes.planning.buffers import Buffers, OperandLoad, TileStep
from tpuc_passes.planning.task import TileTask


class TaskCost:
    """Cycles of one node's transfers and tiles, remembered by shape over all tilings that are tried."""

    def __init__(self, task: TileTask) -> None:
        self.task = task
        self.chip = task.chip
        self.profile = task.chip.profiles[0]
        self._known: dict[Any, int] = {}

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
            compute = begin + self._compute(task, step)
            computed.append(compute)
            store = self._stores(task, step)
            if store:
                dma = max(dma, compute) + store
            stored.append(dma)
        return max(dma, compute)

    def _once(self, key: Any, record: Callable[[Any], None]) -> int:
        if key not in self._known:
            asm = self.chip.assembler()
            record(asm)
            self._known[key] = sum(self.chip.cycles(item, self.profile) for item in asm.instructions)
        return self._known[key]

    def _loads(self, task: TileTask, step: TileStep) -> int:
        total = 0
        for load in (*step.early, *step.late):
            if isinstance(load, OperandLoad):
                total += self._operand(task, load.operand, load.box)
            else:
                group = task.constant_groups[load.group]
                lanes, size = task.group_lanes(group, step.tile), task.group_layout(group, step.tile)[0]
                if group[0].broadcast:
                    block = LocalBlock(0, size, self.chip.lmem.lanes)
                    total += self._once(("broadcast", size), lambda asm, b=block: asm.broadcast_block(b, self._base))
                else:
                    block = LocalBlock(0, size, lanes)
                    total += self._once(("block", lanes, size), lambda asm, b=block: asm.load_block(b, self._base))
        return total

    @property
    def _base(self) -> int:
        return self.chip.description.ddr_base

    def _operand(self, task: TileTask, index: int, box: Box) -> int:
        view = task.space.operands[index]
        assert view is not None
        element = task.node.operand_types[index].storage
        local = LocalTensor(0, box.shape, task.layouts.operands[index], element)
        source = DdrTensor(self._base, box.shape, view.element_strides, element)
        return self._once(("load", index, box.shape), lambda asm: asm.load(local, source))

    def _stores(self, task: TileTask, step: TileStep) -> int:
        if not step.phase.ends:
            return 0
        total = 0
        for index, type_ in enumerate(task.node.result_types):
            box = task.result_box(step.tile, index)
            local = LocalTensor(0, box.shape, task.layouts.results[index], type_.storage)
            target = DdrTensor(self._base, box.shape, task.space.results[index].element_strides, type_.storage)
            key = ("store", index, box.shape)
            total += self._once(key, lambda asm, t=target, s=local: asm.store(t, s))
        return total

    def _compute(self, task: TileTask, step: TileStep) -> int:
        boxes = tuple(None if box is None else (box.shape, box.padding) for box in step.boxes)
        key = (
            tuple(stop - start for start, stop in zip(step.tile.starts, step.tile.stops, strict=True)),
            boxes,
            step.phase,
        )
        return self._once(("compute", key), lambda asm: self._emit(task, step, asm))

    def _emit(self, task: TileTask, step: TileStep, asm: Any) -> None:
        """The tile at made-up addresses: timing does not depend on them."""
        operands = tuple(
            None
            if box is None
            else LocalTensor(
                0, box.shape, task.layouts.operands[index], task.node.operand_types[index].storage, box.padding
            )
            for index, box in enumerate(step.boxes)
        )
        results = tuple(
            LocalTensor(0, task.result_box(step.tile, index).shape, task.layouts.results[index], type_.storage)
            for index, type_ in enumerate(task.node.result_types)
        )
        lanes = self.chip.lmem.lanes
        constants = {
            name: LocalBlock(0, size, lanes)
            for group in task.constant_groups
            for name, (_, size) in task.group_layout(group, step.tile)[1].items()
        }
        scratch = {item.name: LocalBlock(0, item.bytes_per_lane, lanes) for item in task.scratch(step.tile)}
        task.kernel.emit(task.node, PlacedTile(step.tile, operands, results, constants, scratch), step.phase, asm)
