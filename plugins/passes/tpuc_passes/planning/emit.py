"""Turns planned tasks into instructions: loads of the next tile, compute of this one, stores of the last one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tpuc.api import (
    Assembler,
    Box,
    CpuRoutine,
    DdrTensor,
    HostCall,
    LocalBlock,
    LocalTensor,
    Move,
    Node,
    Operation,
    PlacedTile,
    TensorInfo,
    Value,
    View,
)

from tpuc_passes.planning.buffers import BlockLoad, Buffers, OperandLoad, TileStep
from tpuc_passes.planning.pack import Block, blocks_of, constant_tensors
from tpuc_passes.planning.task import TileTask
from tpuc_passes.planning.tiling import buffers_of, lmem_need

AddressOf: TypeAlias = "Callable[[Value], int]"


@dataclass(frozen=True)
class MoveTask:
    """An operation that only moves data in DDR."""

    operation: Operation
    node: Node
    moves: Sequence[Move]


@dataclass(frozen=True)
class HostTask:
    """An operation that the chip's runtime computes on the host, from DDR to DDR."""

    operation: Operation
    node: Node
    routine: CpuRoutine[Any]


Task: TypeAlias = TileTask | MoveTask | HostTask


class PlacedTask:
    """A tile task with the LMEM offset of each buffer copy and the DDR address of its packed constants."""

    def __init__(self, task: TileTask, base: int, coefficients: int) -> None:
        self.task = task
        self.buffers: Buffers = buffers_of(task)
        self.coefficients = coefficients
        self.blocks = blocks_of(task)
        self.tensors = constant_tensors(task)
        alignment = task.chip.lmem.alignment
        need = lmem_need(self.buffers, task.chip)
        self.start = base if base + need <= task.chip.lmem.lane_bytes else 0
        self.end = self.start + need
        self.offsets: dict[tuple[str, int], int] = {}
        at = self.start
        for name, size, copies in self.buffers.sizes():
            for copy in range(copies):
                self.offsets[name, copy] = at
                at += -(-size // alignment) * alignment

    def operand(self, index: int, box: Box, slot: int) -> LocalTensor:
        """Where a loaded operand part lies."""
        element = self.task.node.operand_types[index].storage
        address = self.offsets[f"operand{index}", slot]
        return LocalTensor(address, box.shape, self.task.layouts.operands[index], element, box.padding)

    def result(self, index: int, step: TileStep) -> LocalTensor:
        """Where a result part lies."""
        box = self.task.result_box(step.tile, index)
        element = self.task.node.result_types[index].storage
        return LocalTensor(
            self.offsets[f"result{index}", step.result_slot], box.shape, self.task.layouts.results[index], element
        )

    def block(self, load: BlockLoad) -> tuple[LocalBlock, Block]:
        """Where a constant block lies in LMEM and in the packed bytes."""
        block = self.blocks[load.group, load.key]
        lanes = self.task.chip.lmem.lanes if block.broadcast else block.lanes
        return LocalBlock(self.offsets[f"group{load.group}", load.slot], block.bytes_per_lane, lanes), block

    def placed(self, step: TileStep) -> PlacedTile:
        """The tile as the kernel sees it."""
        task = self.task
        operands = tuple(
            None if box is None else self.operand(index, box, step.operand_slots[index])
            for index, box in enumerate(step.boxes)
        )
        constants: dict[str, LocalBlock] = {}
        for index, group in enumerate(task.constant_groups):
            block = self.blocks[index, task.constant_key(group, step.tile)]
            base = self.offsets[f"group{index}", step.group_slots[index]]
            lanes = task.chip.lmem.lanes if block.broadcast else block.lanes
            for name, (offset, size) in block.places.items():
                constants[name] = LocalBlock(base + offset, size, lanes)
        scratch = {
            item.name: LocalBlock(self.offsets[f"scratch:{item.name}", 0], item.bytes_per_lane, task.chip.lmem.lanes)
            for item in task.scratch(step.tile)
        }
        results = tuple(self.result(index, step) for index in range(len(task.node.result_types)))
        return PlacedTile(step.tile, operands, results, constants, scratch)


@dataclass(frozen=True)
class _Item:
    placed: PlacedTask
    step: TileStep
    is_first: bool
    is_last: bool


class Emitter:
    """Walks all tasks in program order and keeps transfers one tile ahead of and one behind compute.

    Program order is the order of meaning; the assembler derives the wait ids from it.
    """

    def __init__(self, asm: Assembler, address_of: AddressOf, origin: Callable[[Value], Value]) -> None:
        self.asm = asm
        self.address_of = address_of
        self._origin = origin  # the value whose bytes an alias shares
        self.host_calls: list[HostCall] = []
        self._stores: list[_Item] = []

    def run(self, tasks: Sequence[tuple[Task, int]]) -> None:
        """Emit everything. Each task comes with the DDR address of its packed constants."""
        items = self._items(tasks)
        current = next(items, None)
        if isinstance(current, _Item):
            self._load(current, early=True)
            self._load(current, early=False)
        while current is not None:
            following = next(items, None)
            if not isinstance(current, _Item):
                self._flush()
                if isinstance(current, MoveTask):
                    self._move(current)
                else:
                    self._call(current)
                if isinstance(following, _Item):
                    self._load(following, early=True)
                    self._load(following, early=False)
                current = following
                continue
            ahead = isinstance(following, _Item) and self._may_load_ahead(current, following)
            apart = isinstance(following, _Item) and _are_apart(current, following)
            if isinstance(following, _Item) and (ahead or apart):
                self._load(following, early=True, blocks_only=not ahead)
            self._compute(current)
            self._flush()
            self._stores.append(current)
            if isinstance(following, _Item):
                if self._must_store_before(current, following):
                    self._flush()
                if not ahead:
                    self._load(following, early=True, operands_only=apart)
                self._load(following, early=False)
            current = following
        self._flush()

    def _items(self, tasks: Sequence[tuple[Task, int]]) -> Iterator[_Item | MoveTask | HostTask]:
        base = 0
        for task, coefficients in tasks:
            if not isinstance(task, TileTask):
                yield task
                continue
            placed = PlacedTask(task, base, coefficients)
            base = placed.end
            steps = placed.buffers.steps
            for index, step in enumerate(steps):
                yield _Item(placed, step, index == 0, index == len(steps) - 1)

    def _may_load_ahead(self, current: _Item, following: _Item) -> bool:
        """May the next tile's loads come before this tile's compute?"""
        if current.placed is following.placed:
            return True
        if not _are_apart(current, following):
            return False
        waiting = {id(v) for item in [current, *self._stores] for v in item.placed.task.operation.results}
        return not any(id(self._origin(v)) in waiting for v in following.placed.task.operation.operands)

    def _must_store_before(self, current: _Item, following: _Item) -> bool:
        """Must this tile's results be in DDR, or leave LMEM, before the next tile's loads?"""
        if current.placed is following.placed:
            return current.placed.buffers.result_copies == 1
        results = {id(v) for v in current.placed.task.operation.results}
        reads = any(id(self._origin(v)) in results for v in following.placed.task.operation.operands)
        return reads or not _are_apart(current, following)

    def _load(self, item: _Item, *, early: bool, blocks_only: bool = False, operands_only: bool = False) -> None:
        placed, step = item.placed, item.step
        for load in step.early if early else step.late:
            if isinstance(load, OperandLoad):
                if blocks_only:
                    continue
                local = placed.operand(load.operand, load.box, load.slot)
                view = placed.task.space.operands[load.operand]
                assert view is not None
                value = placed.task.operation.operands[load.operand]
                constant = placed.tensors.get(load.operand)
                base = placed.coefficients + constant if constant is not None else self.address_of(value)
                self.asm.load(local, _part(base, value, view, load.box))
            elif not operands_only:
                local_block, block = placed.block(load)
                address = placed.coefficients + block.offset
                if block.broadcast:
                    self.asm.broadcast_block(local_block, address)
                else:
                    self.asm.load_block(local_block, address)

    def _compute(self, item: _Item) -> None:
        task = item.placed.task
        task.kernel.emit(task.node, item.placed.placed(item.step), item.step.phase, self.asm)

    def _flush(self) -> None:
        """Store the results of tiles that have been computed."""
        for item in self._stores:
            if not item.step.phase.ends:
                continue
            task = item.placed.task
            for index, value in enumerate(task.operation.results):
                box = task.result_box(item.step.tile, index)
                target = _part(self.address_of(value), value, task.space.results[index], box)
                self.asm.store(target, item.placed.result(index, item.step))
        self._stores.clear()

    def _call(self, task: HostTask) -> None:
        node, operation = task.node, task.operation
        sources, targets = task.routine.shapes(node)
        self.host_calls.append(
            HostCall(
                task.routine.function,
                task.routine.arguments(node),
                tuple(self._info(value, shape) for value, shape in zip(operation.operands, sources, strict=True)),
                tuple(self._info(value, shape) for value, shape in zip(operation.results, targets, strict=True)),
                len(self.asm.instructions),
            )
        )

    def _info(self, value: Value, shape: tuple[int, ...]) -> TensorInfo:
        return TensorInfo(value.name, shape, value.tensor.element, self.address_of(value))

    def _move(self, task: MoveTask) -> None:
        result = task.operation.result
        element = result.tensor.storage
        item = element.bits // 8
        for move in task.moves:
            target = DdrTensor(
                self.address_of(result) + move.target_offset * item, move.shape, move.target_strides, element
            )
            if move.fill is not None:
                self.asm.fill(target, move.fill)
                continue
            source = self.address_of(task.operation.operands[move.operand]) + move.source_offset * item
            self.asm.move(target, DdrTensor(source, move.shape, move.source_strides, element))


def _are_apart(current: _Item, following: _Item) -> bool:
    """Do two tasks use different parts of local memory?"""
    one, two = current.placed, following.placed
    return one is not two and (one.end <= two.start or two.end <= one.start)


def _part(base: int, value: Value, view: View, box: Box) -> DdrTensor:
    """The part `box` of a value that begins at DDR address `base`."""
    strides = view.element_strides
    element = value.tensor.storage
    offset = sum(start * stride for start, stride in zip(box.start, strides, strict=True))
    return DdrTensor(base + offset * (element.bits // 8), box.shape, strides, element)
