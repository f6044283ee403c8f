"""Tile an op whose operands and results are resident in local memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

from tpuc_plan.tasks.cost import Cycles
from tpuc_plan.tasks.task import TileTask, tile_count

_ROW_PARTS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Numbers of parts into which rows may be cut."""


Cut: TypeAlias = "tuple[TileTask, frozenset[int]]"
"""A task under a tiling, and the operands whose tiles can be read from the whole."""


def resident_tiling(task: TileTask, fraction: int, cycles: Cycles) -> Cut | None:
    """Return the task in as few tiles as possible such that scratch and constants of a tile take at most 1/`fraction`
    of local memory and the results can be resident, with the operands whose tiles can be read from the whole; None
    if no tiling allows residency.

    If none meets the fraction, the tiling with the least memory is taken. Rows are cut only if batches and channels do
    not suffice, or if that computes faster by the profiles of `cycles`.
    """
    known, key = task.facts.resident, (fraction, cycles.profiles)
    if key not in known:
        found = _search(task, fraction, (False, True))
        if found is not None and _cuts_channels(found[0]):
            by_rows = _search(task, fraction, (True,), whole_channels=True)
            if by_rows is not None and _is_better(by_rows[0], found[0], fraction, cycles):
                found = by_rows
        known[key] = found
    return known[key]


def _cuts_channels(task: TileTask) -> bool:
    axis = task.space.axis("c")
    return axis is not None and task.sizes["c"] < axis.size


def _is_better(task: TileTask, other: TileTask, fraction: int, cycles: Cycles) -> bool:
    """True if the task computes faster, within the budget or with at most a quarter more memory than the other."""
    budget = max(task.chip.lmem.lane_bytes // fraction, other.work_bytes(other.tiles[0]) * 5 // 4)
    return task.work_bytes(task.tiles[0]) <= budget and compute_cycles(task, cycles) < compute_cycles(other, cycles)


def compute_cycles(task: TileTask, cycles: Cycles) -> int:
    """Return the compute cycles of all tiles."""
    return sum(cycles.compute(task, tile, task.phase(tile), tuple(task.boxes(tile))) for tile in task.tiles)


def _search(task: TileTask, fraction: int, stages: Sequence[bool], *, whole_channels: bool = False) -> Cut | None:
    """Search for a tiling in stages; a stage that is True also cuts rows."""
    budget = task.chip.lmem.lane_bytes // fraction
    names = [axis.name for axis in task.space.axes]
    best: tuple[int, TileTask, frozenset[int]] | None = None
    operands = range(len(task.facts.operands))
    local = None
    for rows in stages:
        options = [_whole_sizes(task, name, rows) for name in names]
        if whole_channels:
            options = [sizes[:1] if name == "c" else sizes for name, sizes in zip(names, options, strict=True)]
        candidates = (dict(zip(names, sizes, strict=True)) for sizes in itertools.product(*options))
        for sizes in sorted(candidates, key=lambda sizes: tile_count(task.space, sizes)):
            candidate = task.with_sizes(sizes)
            if not _within_limits(candidate):
                continue
            addressable = frozenset(index for index in operands if _is_operand_addressable(candidate, index))
            local = addressable if local is None else local
            if not local <= addressable:
                continue
            work_bytes = candidate.work_bytes(candidate.tiles[0])
            if best is None or work_bytes < best[0]:
                best = (work_bytes, candidate, addressable)
            if work_bytes <= budget:
                return candidate, addressable
    return best[1:] if best is not None else None


def _within_limits(task: TileTask) -> bool:
    if any(axis.limit and task.sizes[axis.name] > axis.limit for axis in task.space.axes):
        return False
    return all(_is_result_addressable(task, index) for index in range(len(task.results)))


def _whole_sizes(task: TileTask, name: str, rows: bool) -> list[int]:
    """Return the tile sizes along an axis that may leave parts addressable, the whole axis first."""
    axis = task.space.axis(name)
    assert axis is not None
    if not axis.splittable:
        return [axis.size]
    lanes = task.chip.lmem.lanes
    if name == "n" and (axis.granularity == 1 or axis.limit):
        return [*dict.fromkeys((axis.size, axis.granularity))]
    if name == "c" and axis.granularity <= lanes:
        slots = [-(-axis.size // lanes)]
        while slots[-1] > 1:
            slots.append(-(-slots[-1] // 2))
        return sorted({min(count * lanes, axis.size) for count in slots}, reverse=True)
    if name == "h" and rows:
        unit = _row_unit(task)
        parts = {math.ceil(axis.size / count / unit) * unit for count in _ROW_PARTS}
        return sorted({min(size, axis.size) for size in parts} | {axis.size}, reverse=True)
    return [axis.size]


def _row_unit(task: TileTask) -> int:
    """Return the number of rows after which every result is aligned, as a multiple of the kernel's granularity."""
    alignment, axis = task.chip.lmem.alignment, task.space.axis("h")
    unit = 1 if axis is None else max(axis.granularity, 1)
    for side in task.results:
        unit = math.lcm(unit, alignment // math.gcd(alignment, side.shape[3] * side.element.bits // 8))
    return unit


def _is_result_addressable(task: TileTask, index: int) -> bool:
    """True if the tiles of a result can be parts of the whole."""
    side = task.results[index]
    boxes = (task.result_box(tile, index) for tile in task.tiles)
    return side.view.strides is None and all(side.part(side.shape, box.start, box.shape) is not None for box in boxes)


def _is_operand_addressable(task: TileTask, index: int) -> bool:
    """True if the kernel can read the tiles of an operand from the whole."""
    side = task.facts.operands[index]
    if side is None or side.view.strides is not None:
        return False
    boxes = (box for tile in task.tiles if (box := task.boxes(tile)[index]) is not None)
    return all(side.part(side.shape, box.start, box.shape) is not None for box in boxes)
