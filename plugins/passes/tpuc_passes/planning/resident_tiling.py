"""How an operation is cut when its operands and results stay whole in local memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

from tpuc.api import Box, Shape4, TensorType, View

from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.task import TileTask

_ROW_PARTS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Numbers of parts that rows are cut into."""


Cut: TypeAlias = "tuple[TileTask, frozenset[int]]"
"""A task under a tiling, and the operands of which its tiles can be read from the whole."""


def resident_tiling(task: TileTask, fraction: int, cycles: Cycles) -> Cut | None:
    """The task cut so that scratch and constants of its tiles take at most one part in `fraction` of local memory, in
    as few tiles as possible, and so that its results can be resident; None when no cut does that. Rows are cut only
    where batches and channels do not suffice, or where that computes faster by the profiles of `cycles`. With it the
    operands of which its tiles can be read from the whole.
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
    """Does it compute faster, in memory that is within the budget or hardly more than the other's?"""
    budget = max(task.chip.lmem.lane_bytes // fraction, _tile_bytes(other) * 5 // 4)
    return _tile_bytes(task) <= budget and _compute(task, cycles) < _compute(other, cycles)


def _compute(task: TileTask, cycles: Cycles) -> int:
    """Cycles of computing all tiles."""
    return sum(cycles.compute(task, tile, task.phase(tile), tuple(task.boxes(tile))) for tile in task.tiles)


def _search(task: TileTask, fraction: int, stages: Sequence[bool], *, whole_channels: bool = False) -> Cut | None:
    """Per stage, whether rows are cut too."""
    budget = task.chip.lmem.lane_bytes // fraction
    names = [axis.name for axis in task.space.axes]
    best: tuple[int, TileTask, frozenset[int]] | None = None
    operands = range(len(task.node.operand_types))
    local = None
    for rows in stages:
        options = [_whole_sizes(task, name, rows) for name in names]
        if whole_channels:
            options = [sizes[:1] if name == "c" else sizes for name, sizes in zip(names, options, strict=True)]
        for sizes in sorted(itertools.product(*options), key=lambda sizes: _count(task, sizes)):
            candidate = task.with_sizes(dict(zip(names, sizes, strict=True)))
            if not _within_limits(candidate):
                continue
            addressable = frozenset(index for index in operands if _is_operand_addressable(candidate, index))
            local = addressable if local is None else local
            if not local <= addressable:
                continue
            need = _tile_bytes(candidate)
            if best is None or need < best[0]:
                best = (need, candidate, addressable)
            if need <= budget:
                return candidate, addressable
    return best[1:] if best is not None else None


def _within_limits(task: TileTask) -> bool:
    if any(axis.limit and task.sizes[axis.name] > axis.limit for axis in task.space.axes):
        return False
    return all(_is_result_addressable(task, index) for index in range(len(task.node.result_types)))


def _count(task: TileTask, sizes: Sequence[int]) -> int:
    count = 1
    for axis, size in zip(task.space.axes, sizes, strict=True):
        count *= -(-axis.size // size)
    return count


def _whole_sizes(task: TileTask, name: str, rows: bool) -> list[int]:
    """Tile sizes along an axis that may leave parts addressable, the whole first."""
    axis = task.space.axis(name)
    assert axis is not None
    if not axis.splittable:
        return [axis.size]
    lanes = task.chip.lmem.lanes
    if name == "n" and axis.granularity == 1:
        return [axis.size, 1]
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
    """Rows of every result that end at an aligned address."""
    alignment = task.chip.lmem.alignment
    unit = 1
    for view, type_ in zip(task.space.results, task.node.result_types, strict=True):
        unit = math.lcm(unit, alignment // math.gcd(alignment, view.shape[3] * type_.storage.bits // 8))
    return unit


def _tile_bytes(task: TileTask) -> int:
    tile = task.tiles[0]
    need = sum(scratch.bytes_per_lane for scratch in task.scratch(tile))
    return need + sum(task.group_layout(group, tile)[0] for group in task.constant_groups)


def _is_result_addressable(task: TileTask, index: int) -> bool:
    """Can the tiles of a result be parts of the whole?"""
    view = task.space.results[index]
    if view.strides is not None:
        return False
    return all(result_part(task, index, task.result_box(tile, index)) is not None for tile in task.tiles)


def result_part(task: TileTask, index: int, box: Box) -> tuple[int, Shape4 | None] | None:
    """Offset in bytes, and strides where the layout says something else, of a part of a result that lies whole in local
    memory; None where the kernel cannot write it there.
    """
    lmem, layout, shape = task.chip.lmem, task.layouts.results[index], task.space.results[index].shape
    item = task.node.result_types[index].storage.bits // 8
    offset = lmem.part_offset(layout, shape, item, box.start, box.shape)
    if offset is not None:
        return offset, None
    part = lmem.part_strides(layout, shape, item, box.start, box.shape)
    if part is None or index not in task.layouts.strided_results or part[0] % lmem.alignment:
        return None
    return part


def _is_operand_addressable(task: TileTask, index: int) -> bool:
    """Can the kernel read the tiles of an operand from the whole?"""
    view = task.space.operands[index]
    if view is None or view.strides is not None:
        return False
    boxes = [task.boxes(tile)[index] for tile in task.tiles]
    type_, layout = task.node.operand_types[index], task.layouts.operands[index]
    if index in task.layouts.strided:
        lmem, item = task.chip.lmem, type_.storage.bits // 8
        parts = (box and lmem.part_strides(layout, view.shape, item, box.start, box.shape) for box in boxes)
        if all(box is None or part is not None for box, part in zip(boxes, parts, strict=True)):
            return True
    return all(box is None or _addressable(task, layout, view, type_, box) for box in boxes)


def _addressable(task: TileTask, layout: str, view: View, type_: TensorType, box: Box) -> bool:
    item = type_.storage.bits // 8
    return task.chip.lmem.part_offset(layout, view.shape, item, box.start, box.shape) is not None
