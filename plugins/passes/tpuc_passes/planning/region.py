"""Regions: the steps and moves of tasks that no host function interrupts, scheduled and with their buffers placed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

from tpuc.api import Assembler, Chip, DdrTensor, IntegerAttr, LmemOverflow, RowMove, Value

from tpuc_passes.planning.aliases import AliasSets, Concat
from tpuc_passes.planning.cascade_steps import CascadeSteps
from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.kernels import COEFFICIENTS_ADDRESS
from tpuc_passes.planning.pack import move_constants
from tpuc_passes.planning.placement import place_buffers
from tpuc_passes.planning.schedule import Item, Moves, Scheduler, live_bytes
from tpuc_passes.planning.steps import Addresses, StepBuilder, Steps
from tpuc_passes.planning.stripes import Cascade
from tpuc_passes.planning.task import MoveTask, Task, TileTask

AddressOf: TypeAlias = "Callable[[Value], int]"

_FILLINGS = (100, 97, 92, 84, 70, 50, 0)
"""Percent of local memory that early loads may fill, tried in this order: the fuller, the harder to place."""


@dataclass(frozen=True)
class Region:
    """Steps, and the moves before each of them (or behind the last one)."""

    steps: Steps
    moves: Mapping[int, Sequence[Moves]] = field(default_factory=dict[int, Sequence[Moves]])


@dataclass(frozen=True)
class Placed:
    """A region in program order, when both engines are done, and where its buffers lie."""

    order: Sequence[Item]
    cycles: int
    addresses: Addresses


def build_region(
    tasks: Sequence[Task],
    cycles: Cycles,
    aliases: AliasSets,
    lmem_concats: Sequence[Concat],
    address_of: AddressOf,
) -> Region:
    """The steps and moves of planned tasks."""
    builder = StepBuilder(cycles, aliases, lmem_concats)
    moves: dict[int, list[Moves]] = {}
    for cascade, group in groupby(tasks, _cascade_of):
        if cascade is not None:
            members = [task for task in group if isinstance(task, TileTask)]
            CascadeSteps(builder, Cascade.of(members, aliases), cycles).run()
            continue
        for task in group:
            if isinstance(task, TileTask):
                builder.add(task)
            elif isinstance(task, MoveTask):
                moves.setdefault(builder.now, []).append(_moves(task, cycles, aliases, address_of))
    return Region(builder.result, moves)


def _cascade_of(task: Task) -> int | None:
    return task.stripes.cascade if isinstance(task, TileTask) and task.stripes is not None else None


def schedule_and_place(region: Region, chip: Chip) -> Placed:
    """The schedule of a region under which its buffers can be placed; raises LmemOverflow when none was found."""
    lmem, steps = chip.lmem, region.steps
    for percent in _FILLINGS:
        capacity = lmem.lane_bytes * percent // 100
        schedule = Scheduler(steps, region.moves, capacity, lmem.alignment).run()
        addresses = place_buffers(schedule.live, lmem)
        if addresses is not None:
            return Placed(schedule.order, schedule.cycles, addresses)
    first, *others = sorted({step.task.node.name for step in steps.steps})
    nodes = f"nodes '{first}' and {len(others)} more: their" if others else f"node '{first}': its"
    most = int(live_bytes(steps.live, len(steps.steps), lmem.alignment).max())
    raise LmemOverflow(
        f"{nodes} buffers, up to {most} bytes at once, cannot be placed in "
        f"{lmem.lane_bytes} bytes of local memory per lane; cut {'the largest' if others else 'it'} in the network"
    )


def _moves(task: MoveTask, cycles: Cycles, aliases: AliasSets, address_of: AddressOf) -> Moves:
    asm = cycles.chip.assembler()
    record_moves(task, asm, address_of)
    operands = task.operation.operands
    read = [operands[move.operand] for move in task.moves if move.fill is None]
    read += [operands[move.index] for move in task.moves if isinstance(move, RowMove)]
    return Moves(
        task,
        tuple(writer for value in read for writer in aliases.writers(value)),
        task.operation.result,
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
