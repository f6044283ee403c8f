"""Build regions (runs of tasks without a host function between them), schedule them, and place their buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeAlias

import numpy as np
from tpuc.api import Assembler, Chip, DdrTensor, IntegerAttr, LmemModel, LmemOverflow, RowMove, Value
from tpuc_lower.target.kernels import COEFFICIENTS_ADDRESS

from tpuc_plan.regions.cascade_steps import CascadeSteps
from tpuc_plan.regions.placement import Unplaced, place_buffers, place_most, rested
from tpuc_plan.regions.schedule import Barrier, Item, LiveRanges, Moves, Scheduler, live_bytes
from tpuc_plan.tasks.aliases import AliasSets, Concat
from tpuc_plan.tasks.cost import Cycles
from tpuc_plan.tasks.pack import move_constants
from tpuc_plan.tasks.steps import Addresses, BlockLoad, Buffer, StepBuilder, Steps, TensorLoad
from tpuc_plan.tasks.stripes import Cascade
from tpuc_plan.tasks.task import MoveTask, Task, TileTask

AddressOf: TypeAlias = "Callable[[Value], int]"

_FILLINGS, _EMPTIER = (100, 97, 92), (84, 70, 50, 0)
"""Percent of local memory that early loads may fill, in the order of the tries; a fuller memory is harder to place.
Before the emptier ones, less is filled only around the steps whose buffers find no place.
"""
_NOTHING_EARLY = _EMPTIER[-1:]
_PARTS = 16
"""Local memory is divided into this many parts; one part is reserved around a failing step first, then twice as much
each time.
"""
_ATTEMPTS = 12
"""Maximum number of schedules with such reservations."""
_RETRIES = 4
"""Additional placement orders for each of these schedules."""
_WORTH = 8
"""Percent by which such a schedule must be faster than one with a uniform limit, if local memory has banks: it is
placed without regard to bank conflicts.
"""


@dataclass(frozen=True)
class Region:
    """Steps, and the moves in DDR and barriers before each of them (or after the last one)."""

    steps: Steps
    moves: Mapping[int, Sequence[Moves | Barrier]] = field(default_factory=dict[int, Sequence[Moves | Barrier]])


@dataclass(frozen=True)
class Placed:
    """A region in program order, its total cycles, the addresses and live ranges of its buffers, and before which items
    barriers are.
    """

    order: Sequence[Item]
    cycles: int
    addresses: Addresses
    live: LiveRanges
    barriers: Sequence[int] = ()


def build_region(
    tasks: Sequence[Task | Barrier],
    cycles: Cycles,
    aliases: AliasSets,
    lmem_concats: Sequence[Concat],
    address_of: AddressOf,
) -> Region:
    """Build the steps and moves of planned tasks, with barriers between them."""
    builder = StepBuilder(cycles, aliases, lmem_concats)
    moves: dict[int, list[Moves | Barrier]] = {}
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
            elif isinstance(task, Barrier):
                moves.setdefault(builder.now, []).append(task)
                builder.cycles = cycles = task.cycles
    return Region(builder.result, moves)


def _cascade_of(task: Task | Barrier) -> int | None:
    return task.stripes.cascade if isinstance(task, TileTask) and task.stripes is not None else None


def schedule_and_place(region: Region, chip: Chip, *, is_quick: bool = False) -> Placed:
    """Return the best schedule whose buffers can be placed; raises LmemOverflow if none is found.

    `is_quick`: take a schedule without early loads, if it can be placed.
    """
    placed = _filled(region, chip, _NOTHING_EARLY) if is_quick else None
    placed = (
        placed
        or _filled(region, chip, _FILLINGS)
        or _faster(
            _filled_unevenly(region, chip), _filled(region, chip, _EMPTIER), _WORTH if chip.lmem.bank_bytes else 0
        )
    )
    if placed is not None:
        return placed
    lmem, steps = chip.lmem, region.steps
    first, *others = sorted({step.task.node.name for step in steps.steps})
    nodes = f"nodes '{first}' and {len(others)} more: their" if others else f"node '{first}': its"
    most = int(live_bytes(steps.live, len(steps.steps), lmem.alignment).max())
    raise LmemOverflow(
        f"{nodes} buffers, up to {most} bytes at once, cannot be placed in {lmem.lane_bytes} bytes of local "
        f"memory per lane; split {'the largest one' if others else 'it'} in the network"
    )


def spread(placed: Placed, lmem: LmemModel) -> Placed:
    """Move loaded buffers, where there is space, to bytes that were unused in the steps just before. The order stays.

    How long transfers take depends on the board, and a load waits for the last user of its bytes. Results stay in
    place: moving them made camera frames 7 % slower on CV18xx. Chips with banks are unchanged, as banks determine good
    places.
    """
    if lmem.bank_bytes:
        return placed
    loaded = {item.place.buffer for item in placed.order if isinstance(item, TensorLoad)}
    loaded |= {item.buffer for item in placed.order if isinstance(item, BlockLoad)}
    return replace(placed, addresses=rested(placed.addresses, placed.live, lmem, loaded))


def _faster(uneven: Placed | None, even: Placed | None, worth: int) -> Placed | None:
    """Return the uneven schedule only if it is at least `worth` percent faster."""
    if uneven is None or even is None:
        return uneven or even
    return uneven if 100 * uneven.cycles < (100 - worth) * even.cycles else even


def _filled(region: Region, chip: Chip, percents: Sequence[int]) -> Placed | None:
    """Return the first schedule that can be placed, with local memory filled to each of `percents`."""
    lmem = chip.lmem
    for percent in percents:
        capacity = lmem.lane_bytes * percent // 100
        schedule = _scheduler(region, lmem, capacity, 0).run()
        addresses = place_buffers(schedule.live, lmem)
        if addresses is not None:
            return Placed(schedule.order, schedule.cycles, addresses, schedule.live, schedule.barriers)
    return None


def _scheduler(region: Region, lmem: LmemModel, capacity: int, reserved: np.ndarray | int) -> Scheduler:
    return Scheduler(region.steps, region.moves, capacity, lmem.alignment, reserved)


def _filled_unevenly(region: Region, chip: Chip) -> Placed | None:
    """Return a schedule that reserves growing parts of local memory around the steps whose buffers find no place."""
    lmem = chip.lmem
    reserved = np.zeros(len(region.steps.steps) + 1, np.int64)
    failures: Counter[Buffer] = Counter()
    order = 0
    for _ in range(_ATTEMPTS):
        schedule = _scheduler(region, lmem, lmem.lane_bytes, reserved).run()
        found = place_most(schedule.live, lmem, _RETRIES, order)
        if not isinstance(found, Unplaced):
            return Placed(schedule.order, schedule.cycles, found, schedule.live, schedule.barriers)
        order = found.order
        for buffer in found.buffers:
            (first, last), times = schedule.live[buffer], failures[buffer]
            reserved[max(first - times, 0) : last + times + 1] += lmem.lane_bytes // _PARTS << times
        failures.update(found.buffers)
        if all(_PARTS >> failures[buffer] == 0 for buffer in found.buffers):
            return None  # nothing is left there to give up
    return None


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
    """Record the moves of a task with an assembler."""
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
