"""Decides which values stay in local memory between operations, and how the operations around them are cut.

An operation that works on values that stay is cut so that every part is addressable within the whole (by batches and
by rows of lanes). Where local memory would overflow, the value is sent to DDR whose absence frees most for the
least transfer time, or the operation that needs most works on tiles from DDR by itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from tpuc.api import Box, Constant, TensorType, Value, View

from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.places import origin
from tpuc_passes.planning.residency import Residency
from tpuc_passes.planning.task import Task, TileTask

_BLOCK_SHARE = 12  # scratch and constants of one tile take at most this part of local memory, if the cut allows it
_ROW_PARTS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
_ROOM = 94  # percent of local memory that values may take; the rest is for early loads and unplaceable gaps


@dataclass(eq=False)
class _Segment:
    """A stretch of points over which a value stays: from `start`, where it is made or fetched, to the last use."""

    value: Value
    size: int
    start: int
    made: bool
    uses: list[tuple[int, int]]
    """Point and operand index."""

    @property
    def end(self) -> int:
        return self.uses[-1][0]


@dataclass
class _Traffic:
    """One value: where it is made and used. `store` and `load`: cycles of a transfer of the whole."""

    value: Value
    made: tuple[int, int] | None = None
    uses: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    is_output: bool = False


class Keeper:
    """Plans the residency of all tasks between two host functions.

    `whole[i]`: task i cut for values that stay, None where it cannot be; `alone[i]` is not consulted for values.
    """

    def __init__(self, tasks: Sequence[Task], outputs: Sequence[Value]) -> None:
        self.tasks = list(tasks)
        chip = next((task.chip for task in tasks if isinstance(task, TileTask)), None)
        self.capacity = chip.lmem.lane_bytes * _ROOM // 100 if chip is not None else 0
        self.cycles = Cycles(chip) if chip is not None else None
        self.whole = [whole_tiling(task) if isinstance(task, TileTask) else None for task in self.tasks]
        self.traffic = self._traffic({id(origin(value)) for value in outputs})
        self.segments: list[_Segment] = []

    def run(self) -> list[tuple[TileTask, Residency] | None]:
        """Per task how it is cut and what stays; None where it works on its own tiles, or is no tile task."""
        self.segments = [segment for item in self.traffic.values() for segment in self._segments(item)]
        while (point := self._worst_point()) is not None:
            if not self._send_away(point):
                self._leave_alone(point)
        return [self._residency(point) for point in range(len(self.tasks))]

    def _traffic(self, outputs: set[int]) -> dict[int, _Traffic]:
        found: dict[int, _Traffic] = {}
        for point, task in enumerate(self.tasks):
            for index, operand in enumerate(task.operation.operands):
                value = origin(operand)
                if value.defining is None or not isinstance(value.defining.op, Constant):
                    found.setdefault(id(value), _Traffic(value)).uses.append((point, index))
            for index, value in enumerate(task.operation.results):
                item = found.setdefault(id(value), _Traffic(value))
                item.made = (point, index)
                item.is_output = id(value) in outputs
        return found

    def _segments(self, item: _Traffic) -> Iterator[_Segment]:
        """At first everything stays that can."""
        source: tuple[View, str] | None = None
        if item.made is not None:
            source = self._result_side(*item.made)
            if source is None:
                # Made elsewhere in DDR: the first tile task that reads it says how it lies.
                item = _Traffic(item.value, None, item.uses, item.is_output)
        uses: list[tuple[int, int]] = []
        for point, index in item.uses:
            side = self._operand_side(point, index)
            if source is None and item.made is None:
                source = side
            if side is not None and side == source:
                uses.append((point, index))
        if item.made is not None and uses:
            yield self._segment(item.value, item.made[0], True, uses)
        elif item.made is None and len({point for point, _ in uses}) > 1:
            yield self._segment(item.value, uses[0][0], False, uses)

    def _segment(self, value: Value, start: int, made: bool, uses: list[tuple[int, int]]) -> _Segment:
        point, index = uses[0]
        task = self.whole[point]
        view = task.space.operands[index] if task is not None else None
        assert task is not None
        assert view is not None
        return _Segment(value, task.operand_bytes(index, Box((0, 0, 0, 0), view.shape)), start, made, uses)

    def _result_side(self, point: int, index: int) -> tuple[View, str] | None:
        task = self.whole[point]
        if task is None or not _parts_addressable(task, index):
            return None
        return task.space.results[index], task.layouts.results[index]

    def _operand_side(self, point: int, index: int) -> tuple[View, str] | None:
        task = self.whole[point]
        if task is None or not _operand_addressable(task, index):
            return None
        view = task.space.operands[index]
        return (view, task.layouts.operands[index]) if view is not None else None

    def _live(self) -> np.ndarray:
        live = np.zeros(len(self.tasks) + 1, np.int64)
        for segment in self.segments:
            live[segment.start : segment.end + 1] += segment.size
        for point, task in enumerate(self.whole):
            if task is not None and self._touches(point):
                live[point] += self._own_bytes(point, task)
        return live

    def _touches(self, point: int) -> bool:
        """Does anything stay before or after the task?"""
        return any(
            (segment.made and segment.start == point) or any(use[0] == point for use in segment.uses)
            for segment in self.segments
        )

    def _own_bytes(self, point: int, task: TileTask) -> int:
        """Bytes of a tile that are not part of values that stay."""
        kept, held = self._sides(point)
        tile = task.tiles[0]
        need = sum(scratch.bytes_per_lane for scratch in task.scratch(tile))
        need += sum(task.group_layout(group, tile)[0] for group in task.constant_groups)
        for index, box in enumerate(task.boxes(tile)):
            if box is not None and index not in kept:
                need += task.operand_bytes(index, box)
        for index in range(len(task.node.result_types)):
            if index not in held:
                need += task.result_bytes(index, task.result_box(tile, index))
        return need

    def _sides(self, point: int) -> tuple[set[int], set[int]]:
        kept = {index for segment in self.segments for at, index in segment.uses if at == point}
        results = {id(value): index for index, value in enumerate(self.tasks[point].operation.results)}
        held = {results[id(segment.value)] for segment in self.segments if segment.made and segment.start == point}
        return kept, held

    def _worst_point(self) -> int | None:
        live = self._live()
        point = int(live.argmax())
        return point if live[point] > self.capacity else None

    def _send_away(self, point: int) -> bool:
        """Send the best value that lives at a point without being used there to DDR until its next use."""
        best: tuple[float, int] | None = None
        for number, segment in enumerate(self.segments):
            points = [segment.start, *(use[0] for use in segment.uses)]
            if segment.start < point < segment.end and point not in points:
                cost = self._round_trip(segment) / segment.size
                if best is None or cost < best[0]:
                    best = (cost, number)
        if best is None:
            return False
        segment = self.segments.pop(best[1])
        before = [use for use in segment.uses if use[0] < point]
        after = [use for use in segment.uses if use[0] > point]
        if before and (segment.made or len({at for at, _ in before}) > 1):
            self.segments.append(self._segment(segment.value, segment.start, segment.made, before))
        if len({at for at, _ in after}) > 1:
            self.segments.append(self._segment(segment.value, after[0][0], False, after))
        return True

    def _round_trip(self, segment: _Segment) -> int:
        """Cycles that it costs to store a value, unless that happens anyway, and to load it again."""
        assert self.cycles is not None
        point, index = segment.uses[-1]
        task = self.whole[point]
        view = task.space.operands[index] if task is not None else None
        assert task is not None
        assert view is not None
        whole = Box((0, 0, 0, 0), view.shape)
        cost = self.cycles.load(task, index, whole)
        item = self.traffic[id(segment.value)]
        if segment.made and not item.is_output and len(item.uses) == len(segment.uses):
            cost += cost
        return cost

    def _leave_alone(self, point: int) -> None:
        """Let a task work on tiles from DDR."""
        remaining: list[_Segment] = []
        for segment in self.segments:
            uses = [use for use in segment.uses if use[0] != point]
            if segment.made and segment.start == point:
                groups = [(False, uses)]
            else:
                before = [use for use in uses if use[0] < point]
                groups = [(segment.made, before), (False, [use for use in uses if use[0] > point])]
                if len(before) == len(segment.uses) or len(uses) == len(segment.uses):
                    groups = [(segment.made, uses)]
            for made, part in groups:
                if part and (made or len({at for at, _ in part}) > 1):
                    start = segment.start if made else part[0][0]
                    remaining.append(self._segment(segment.value, start, made, part))
        self.segments = remaining
        self.whole[point] = None

    def _residency(self, point: int) -> tuple[TileTask, Residency] | None:
        task = self.whole[point]
        if task is None or not self._touches(point):
            return None
        fetched: set[int] = set()
        kept: set[int] = set()
        for segment in self.segments:
            for at, index in segment.uses:
                if at == point:
                    (kept if segment.made or segment.start != point else fetched).add(index)
        _, held = self._sides(point)
        stored = {
            index for index, value in enumerate(task.operation.results) if self._is_stored(self.traffic[id(value)])
        }
        return task, Residency(frozenset(kept), frozenset(fetched), frozenset(held), frozenset(stored))

    def _is_stored(self, item: _Traffic) -> bool:
        covered = sum(len(s.uses) for s in self.segments if s.made and s.value is item.value)
        return item.is_output or covered < len(item.uses) or not item.uses


def whole_tiling(task: TileTask) -> TileTask | None:
    """The task cut so coarsely that what its tiles need by themselves takes a share of local memory, and so that its
    results can stay; None when no cut does that. Rows are cut only where batches and channels do not suffice.
    """
    budget = task.chip.lmem.lane_bytes // _BLOCK_SHARE
    names = [axis.name for axis in task.space.axes]
    best: tuple[int, TileTask] | None = None
    local = None
    for rows in (False, True):
        options = [_whole_sizes(task, name, rows) for name in names]
        for sizes in sorted(itertools.product(*options), key=lambda sizes: _count(task, sizes)):
            candidate = task.with_sizes(dict(zip(names, sizes, strict=True)))
            if not _within_limits(candidate):
                continue
            addressable = [_operand_addressable(candidate, index) for index in range(len(task.node.operand_types))]
            local = local or addressable
            if any(before and not now for before, now in zip(local, addressable, strict=True)):
                continue
            need = _tile_bytes(candidate)
            if best is None or need < best[0]:
                best = (need, candidate)
            if need <= budget:
                return candidate
    return best[1] if best is not None else None


def _within_limits(task: TileTask) -> bool:
    if any(axis.limit and task.sizes[axis.name] > axis.limit for axis in task.space.axes):
        return False
    return all(_parts_addressable(task, index) for index in range(len(task.node.result_types)))


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


def _parts_addressable(task: TileTask, index: int) -> bool:
    view = task.space.results[index]
    if view.strides is not None:
        return False
    boxes = (task.result_box(tile, index) for tile in task.tiles)
    return all(
        _addressable(task, task.layouts.results[index], view, task.node.result_types[index], box) for box in boxes
    )


def _operand_addressable(task: TileTask, index: int) -> bool:
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
