"""Compute the local memory buffers of an op that streams from DDR under a tiling, and the loads of each tile."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from tpuc.api import Box, LmemModel, Phase, Tile

from tpuc_plan.planners.alignment import align
from tpuc_plan.tasks.task import TileTask, tile_of, tiles_of


@dataclass(frozen=True)
class StreamedTile:
    """One tile, with the operands and constant groups that differ from those of the tile before and must be loaded."""

    tile: Tile
    phase: Phase
    boxes: tuple[Box | None, ...]
    operands: tuple[int, ...]
    groups: tuple[int, ...]


@dataclass
class TileBuffer:
    """`bytes_per_lane`: of the largest part. `parts`: number of different parts that it holds in turn."""

    bytes_per_lane: int = 0
    parts: int = 0

    def add(self, size: int, parts: int) -> None:
        """Record one more part of this size; `parts` is 0 if it is the same as before."""
        self.bytes_per_lane = max(self.bytes_per_lane, size)
        self.parts += parts


@dataclass
class TileBuffers:
    """The buffers of a task. Buffers with several parts have two copies if `double` (double buffering), so transfers
    overlap with compute.
    """

    operands: Sequence[TileBuffer]
    groups: Sequence[TileBuffer]
    results: Sequence[TileBuffer]
    scratch: dict[str, int] = field(default_factory=dict[str, int])
    steps: list[StreamedTile] = field(default_factory=list[StreamedTile])
    double: bool = True

    def lane_bytes(self, lmem: LmemModel) -> int:
        """Return the bytes per lane of all copies, each aligned."""
        sizes = [(buffer.bytes_per_lane, buffer.parts) for buffer in (*self.operands, *self.groups, *self.results)]
        sizes += [(size, 1) for size in self.scratch.values()]
        copies = 2 if self.double else 1
        return sum(align(size, lmem.alignment) * min(copies, max(parts, 1)) for size, parts in sizes)


def fitting_buffers(task: TileTask) -> TileBuffers | None:
    """As `plan_buffers`, but None as soon as local memory overflows: sizes only grow with each tile.

    The first and the middle tile are tried before all tiles: they show what needs two copies, and mostly the largest
    parts.
    """
    lmem = task.chip.lmem

    def is_too_much(found: TileBuffers) -> bool:
        return found.lane_bytes(lmem) > lmem.lane_bytes

    tiles = tiles_of(task.space, task.sizes) if task.share is None else iter(task.own_tiles)
    first, middle = next(tiles), middle_tile(task)
    if middle != first and _walk(task, (first, middle), True, is_too_much) is None:
        return None
    return _walk(task, itertools.chain([first], tiles), True, is_too_much)


def middle_tile(task: TileTask) -> Tile:
    """Return the second tile along every split axis; it mostly has neighbors on all sides."""
    ranges: list[tuple[int, int]] = []
    for axis in task.space.axes:
        size = task.sizes[axis.name]
        start = min(size, axis.size - size) // size * size
        ranges.append((start, min(start + size, axis.size)))
    return tile_of(tuple(axis.name for axis in task.space.axes), ranges)


def plan_buffers(task: TileTask, double: bool = True) -> TileBuffers:
    """Return the buffers and steps of a task, with single buffers unless `double`."""
    found = _walk(task, task.own_tiles, double, lambda _: False)
    assert found is not None
    return found


def _walk(
    task: TileTask, tiles: Iterable[Tile], double: bool, is_too_much: Callable[[TileBuffers], bool]
) -> TileBuffers | None:
    counts = (len(task.facts.operands), len(task.constant_groups), len(task.results))
    operands, groups, results = ([TileBuffer() for _ in range(count)] for count in counts)
    buffers = TileBuffers(operands, groups, results, double=double)
    boxes_before: Sequence[Box | None] = [None] * len(operands)
    keys: list[Hashable] = [None] * len(groups)
    for tile in tiles:
        phase, boxes = task.phase(tile), tuple(task.boxes(tile))
        loaded: list[int] = []
        for index, (box, before) in enumerate(zip(boxes, boxes_before, strict=True)):
            if box is not None:
                is_new = before is None or (before.start, before.shape) != (box.start, box.shape)
                operands[index].add(task.operand(index).lane_bytes(box.shape), is_new)
                loaded += [index] * is_new
        boxes_before = boxes
        packed: list[int] = []
        for index, group in enumerate(task.constant_groups):
            key = task.constant_key(group, tile)
            groups[index].add(task.group_layout(group, tile)[0], key != keys[index])
            packed += [index] * (key != keys[index])
            keys[index] = key
        for index, result in enumerate(results):
            result.add(task.results[index].lane_bytes(task.result_box(tile, index).shape), phase.ends)
        for scratch in task.scratch(tile):
            buffers.scratch[scratch.name] = max(buffers.scratch.get(scratch.name, 0), scratch.bytes_per_lane)
        buffers.steps.append(StreamedTile(tile, phase, boxes, tuple(loaded), tuple(packed)))
        if is_too_much(buffers):
            return None
    return buffers
