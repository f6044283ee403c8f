"""The steps and moves of tasks that no host function interrupts, in order and with their buffers placed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tpuc.api import Assembler, Chip, DdrTensor, IntegerAttr, LmemOverflow, RowMove, Value

from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.kernels import COEFFICIENTS_ADDRESS
from tpuc_passes.planning.pack import move_constants
from tpuc_passes.planning.placement import place_buffers
from tpuc_passes.planning.places import Places
from tpuc_passes.planning.residency import Residency
from tpuc_passes.planning.schedule import Item, Moves, Scheduler, live_bytes
from tpuc_passes.planning.sliced_steps import RunSteps
from tpuc_passes.planning.slicing import Run, Slicing
from tpuc_passes.planning.steps import StepBuilder, Steps
from tpuc_passes.planning.task import MoveTask, Task, TileTask

AddressOf: TypeAlias = "Callable[[Value], int]"

_FILLINGS = (100, 97, 92, 84, 70, 50, 0)
"""Percent of local memory that early loads may fill, tried in this order: the fuller, the harder to place."""


@dataclass
class Stretch:
    """Steps, and the moves before each of them (or behind the last one)."""

    steps: Steps
    moves: dict[int, list[Moves]] = field(default_factory=dict[int, list[Moves]])


def build_stretch(tasks: Sequence[Task], cycles: Cycles, places: Places, address_of: AddressOf) -> Stretch:
    """The steps of tasks as their operations say that they are cut and what stays."""
    builder = StepBuilder(cycles, places)
    moves: dict[int, list[Moves]] = {}
    sliced: list[TileTask] = []
    for index, task in enumerate(tasks):
        if isinstance(task, TileTask) and (slicing := Slicing.of(task.operation)) is not None:
            sliced.append(task)
            if index + 1 == len(tasks) or not _same_run(slicing, tasks[index + 1]):
                for _ in RunSteps(builder, Run.of(sliced, slicing), cycles).run():
                    pass
                sliced = []
        elif isinstance(task, TileTask):
            for _ in builder.add(task, Residency.of(task.operation)):
                pass
        elif isinstance(task, MoveTask):
            moves.setdefault(builder.now, []).append(_moves(task, cycles, places, address_of))
    return Stretch(builder.result, moves)


def _same_run(slicing: Slicing, task: Task) -> bool:
    other = Slicing.of(task.operation)
    return other is not None and other.run == slicing.run


def order_and_place(stretch: Stretch, chip: Chip) -> tuple[list[Item], int]:
    """The items of a stretch in program order, all buffers placed, and when both engines are done.

    Raises LmemOverflow when no placement was found.
    """
    lmem, steps = chip.lmem, stretch.steps
    lifetimes = [(buffer.first, buffer.last) for buffer in steps.buffers]
    for percent in _FILLINGS:
        for buffer, (first, last) in zip(steps.buffers, lifetimes, strict=True):
            buffer.first, buffer.last = first, last
        capacity = lmem.lane_bytes * percent // 100
        scheduler = Scheduler(steps, stretch.moves, capacity, lmem.alignment)
        order = scheduler.run()
        if place_buffers(steps.buffers, lmem):
            return order, scheduler.cycles
    first, *others = sorted({step.task.node.name for step in steps.steps})
    nodes = f"nodes '{first}' and {len(others)} more: their" if others else f"node '{first}': its"
    for buffer, (begin, end) in zip(steps.buffers, lifetimes, strict=True):
        buffer.first, buffer.last = begin, end
    raise LmemOverflow(
        f"{nodes} buffers, up to {int(live_bytes(steps, lmem.alignment).max())} bytes at once, cannot be placed in "
        f"{lmem.lane_bytes} bytes of local memory per lane; cut {'the largest' if others else 'it'} in the network"
    )


def _moves(task: MoveTask, cycles: Cycles, places: Places, address_of: AddressOf) -> Moves:
    asm = cycles.chip.assembler()
    record_moves(task, asm, address_of)
    operands = task.operation.operands
    read = [operands[move.operand] for move in task.moves if move.fill is None]
    read += [operands[move.index] for move in task.moves if isinstance(move, RowMove)]
    return Moves(
        task,
        tuple(id(writer) for value in read for writer in places.writers(value)),
        id(task.operation.result),
        cycles.total(asm.instructions),
    )


def record_moves(task: MoveTask, asm: Assembler, address_of: AddressOf) -> None:
    """Record the moves of a task."""
    result = task.operation.result
    element = result.tensor.storage
    item = element.bits // 8
    constants = move_constants(task)
    base = task.operation.extra_attributes.get(COEFFICIENTS_ADDRESS)

    def address(index: int) -> int:
        if index in constants and isinstance(base, IntegerAttr):
            return base.value + constants[index]
        return address_of(task.operation.operands[index])

    for move in task.moves:
        start = address_of(result) + move.target_offset * item
        if move.fill is not None:
            asm.fill(DdrTensor(start, move.shape, move.target_strides, element), move.fill)
            continue
        source = address(move.operand) + move.source_offset * item
        if not isinstance(move, RowMove):
            asm.move(
                DdrTensor(start, move.shape, move.target_strides, element),
                DdrTensor(source, move.shape, move.source_strides, element),
            )
            continue
        one, c, rows, w = move.shape
        whole = (one, c, move.rows, w)
        kind = task.operation.operands[move.index].tensor.storage
        asm.move_rows(
            DdrTensor(start, whole if move.scatters else move.shape, move.target_strides, element),
            DdrTensor(source, move.shape if move.scatters else whole, move.source_strides, element),
            DdrTensor(
                address(move.index) + move.index_offset * kind.bits // 8,
                (one, c if move.index_strides[0] else 1, rows, 1),
                (0, *move.index_strides, 1),
                kind,
            ),
            move.scatters,
        )
