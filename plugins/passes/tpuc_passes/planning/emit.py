"""Turns planned tasks into instructions: steps, their order, their places in local memory, and what they record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tpuc.api import Assembler, Chip, DdrTensor, HostCall, LmemOverflow, LocalBlock, TensorInfo, Value

from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.placement import place_buffers
from tpuc_passes.planning.places import Places
from tpuc_passes.planning.residency import Residency
from tpuc_passes.planning.schedule import Item, Moves, Scheduler
from tpuc_passes.planning.steps import BlockLoad, Step, StepBuilder, Steps, Store, TensorLoad
from tpuc_passes.planning.task import HostTask, MoveTask, Task, TileTask

AddressOf: TypeAlias = "Callable[[Value], int]"

_FILLINGS = (100, 97, 92, 84, 70, 50, 0)
"""Percent of local memory that early loads may fill, tried in this order: the fuller, the harder to place."""


class Emitter:
    """Emits all tasks. Program order is the order of meaning; the assembler derives the wait ids from it."""

    def __init__(self, chip: Chip, asm: Assembler, address_of: AddressOf, places: Places) -> None:
        self.chip = chip
        self.asm = asm
        self.address_of = address_of
        self._places = places
        self._cycles = Cycles(chip)
        self._coefficients: dict[int, int] = {}
        self.host_calls: list[HostCall] = []

    def run(self, tasks: Sequence[tuple[Task, int]]) -> None:
        """Emit everything. Each task comes with the DDR address of its packed constants."""
        stretch: list[tuple[Task, int]] = []
        for task, coefficients in tasks:
            if isinstance(task, HostTask):
                self._emit_stretch(stretch)
                self._call(task)
                stretch = []
            else:
                stretch.append((task, coefficients))
        self._emit_stretch(stretch)

    def _emit_stretch(self, tasks: Sequence[tuple[Task, int]]) -> None:
        """Tasks that no host function interrupts."""
        builder = StepBuilder(self._cycles, self._places)
        moves: dict[int, list[Moves]] = {}
        for task, coefficients in tasks:
            if isinstance(task, TileTask):
                self._coefficients[id(task)] = coefficients
                for _ in builder.add(task, Residency.of(task.operation)):
                    pass
            elif isinstance(task, MoveTask):
                moves.setdefault(builder.now, []).append(self._moves(task))
        for item in order_and_place(builder.result, moves, self.chip):
            self._emit(item)

    def _moves(self, task: MoveTask) -> Moves:
        asm = self.chip.assembler()
        self._move(task, asm)
        profile = self.chip.profiles[0]
        read = [task.operation.operands[move.operand] for move in task.moves if move.fill is None]
        return Moves(
            task,
            tuple(id(writer) for value in read for writer in self._places.writers(value)),
            id(task.operation.result),
            sum(self.chip.cycles(instruction, profile) for instruction in asm.instructions),
        )

    def _emit(self, item: Item) -> None:
        match item:
            case Step():
                item.task.kernel.emit(item.task.node, item.placed(), item.phase, self.asm)
            case TensorLoad():
                base = (
                    self._coefficients[id(item.task)] + item.constant
                    if item.value is None
                    else self.address_of(item.value)
                )
                self.asm.load(item.place.local(), _at(base, item.source))
            case BlockLoad():
                block = item.block
                lanes = self.chip.lmem.lanes if block.broadcast else block.lanes
                local = LocalBlock(item.buffer.address, block.bytes_per_lane, lanes)
                address = self._coefficients[id(item.task)] + block.offset
                if block.broadcast:
                    self.asm.broadcast_block(local, address)
                else:
                    self.asm.load_block(local, address)
            case Store():
                self.asm.store(_at(self.address_of(item.value), item.target), item.place.local())
            case MoveTask():
                self._move(item, self.asm)

    def _move(self, task: MoveTask, asm: Assembler) -> None:
        result = task.operation.result
        element = result.tensor.storage
        item = element.bits // 8
        for move in task.moves:
            target = DdrTensor(
                self.address_of(result) + move.target_offset * item, move.shape, move.target_strides, element
            )
            if move.fill is not None:
                asm.fill(target, move.fill)
                continue
            source = self.address_of(task.operation.operands[move.operand]) + move.source_offset * item
            asm.move(target, DdrTensor(source, move.shape, move.source_strides, element))

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


def order_and_place(steps: Steps, moves: dict[int, list[Moves]], chip: Chip) -> list[Item]:
    """The items of one stretch in program order, all buffers placed; raises LmemOverflow when that fails."""
    lmem = chip.lmem
    lifetimes = [(buffer.first, buffer.last) for buffer in steps.buffers]
    for percent in _FILLINGS:
        for buffer, (first, last) in zip(steps.buffers, lifetimes, strict=True):
            buffer.first, buffer.last = first, last
        order = Scheduler(steps, moves, lmem.lane_bytes * percent // 100, lmem.alignment).run()
        if place_buffers(steps.buffers, lmem):
            return order
    names = sorted({step.task.node.name for step in steps.steps})
    raise LmemOverflow(
        f"nodes '{names[0]}' and {len(names) - 1} more: their buffers cannot be placed in {lmem.lane_bytes} bytes of "
        "local memory per lane; cut the largest of them in the network"
    )


def _at(base: int, tensor: DdrTensor) -> DdrTensor:
    return DdrTensor(base + tensor.address, tensor.shape, tensor.strides, tensor.element)
