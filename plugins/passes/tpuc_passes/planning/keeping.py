"""Decides which values stay in local memory between operations.

At first everything stays that can. Where local memory would overflow, the value is sent to DDR whose absence frees most
for the least transfer time, or the operation that needs most works on tiles from DDR by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from tpuc.api import Box, Constant, Value, View

from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.places import Merge, merged_start, origin
from tpuc_passes.planning.residency import Residency
from tpuc_passes.planning.slicing import Run
from tpuc_passes.planning.task import Task, TileTask
from tpuc_passes.planning.whole import whole_tiling

Use: TypeAlias = "tuple[int, int]"
"""Point (index of a task) and operand or result index."""
Side: TypeAlias = "tuple[View, str]"
"""How a kernel sees a value: view and layout."""
Kept: TypeAlias = "tuple[TileTask, Residency] | None"
"""How a task is cut and what stays; None where it works on its own tiles, or is no tile task."""


@dataclass(eq=False)
class _Segment:
    """A stretch of points over which a value stays, from `start` to the last use.

    `makers`: the results that write it, none where it is fetched from DDR at its first use.
    """

    value: Value
    size: int
    makers: list[Use]
    uses: list[Use]

    @property
    def start(self) -> int:
        return min(self.makers or self.uses)[0]

    @property
    def end(self) -> int:
        return max(point for point, _ in (*self.makers, *self.uses))

    @property
    def points(self) -> set[int]:
        return {point for point, _ in (*self.makers, *self.uses)}


@dataclass
class _Traffic:
    """One value: where it is made and used."""

    value: Value
    made: Use | None = None
    uses: list[Use] = field(default_factory=list["Use"])
    is_output: bool = False


class Keeper:
    """Plans the residency of all tasks between two host functions. `merges`: values that lie one after the other in
    another one; where their channels fill whole rows of lanes they are assembled in local memory. `share` and `room` as
    in the settings of a plan.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        outputs: Sequence[Value],
        cycles: Cycles,
        merges: Sequence[Merge],
        share: int,
        room: int,
        runs: Sequence[Run],
    ) -> None:
        self.tasks = list(tasks)
        self.capacity = cycles.chip.lmem.lane_bytes * room // 100
        self.cycles = cycles
        cuts = [whole_tiling(task, share, cycles) if isinstance(task, TileTask) else None for task in self.tasks]
        self.whole = [None if cut is None else cut[0] for cut in cuts]
        self.addressable = [frozenset[int]() if cut is None else cut[1] for cut in cuts]
        """Per task the operands that it can read from the whole."""
        self.reserved = np.zeros(len(self.tasks), np.int64)
        """Bytes that are needed for slices."""
        for run in runs:
            for point in range(run.start, run.start + len(run.tasks)):
                self.whole[point] = None
                self.reserved[point] = run.need
        self.traffic = self._traffic({id(origin(value)) for value in outputs})
        self._own: dict[tuple[int, frozenset[int], frozenset[int]], int] = {}
        self.assembled: dict[int, Merge] = {}
        """The merges that happen in local memory, by the `id` of the whole."""
        self.segments: list[_Segment] = []
        for merge in merges:
            segment = self._assembly(merge)
            if segment is not None:
                self.assembled[id(merge.whole)] = merge
                self.segments.append(segment)
        self._joined = {id(part) for merge in self.assembled.values() for part, _ in merge.parts} | {*self.assembled}

    def run(self, *, from_tail: bool = False) -> list[Kept]:
        """The plan of every task. `from_tail`: nothing stays beyond runs of tasks that are cut from the last one on."""
        for key, item in self.traffic.items():
            if key not in self._joined:
                self.segments += self._segments(item)
        if from_tail:
            self._cut_runs()
        while (point := self._worst_point()) is not None:
            if not self._send_away(point):
                self._leave_alone(point)
        return list(self._residencies())

    # -- what could stay -----------------------------------------------------------------------------------------------

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
        for key, item in found.items():
            item.is_output = key in outputs
        return found

    def _segments(self, item: _Traffic) -> Iterator[_Segment]:
        """The stretch of one value. One that is made in DDR lies as the first tile task sees it that reads it."""
        source = self._result_side(item.made) if item.made is not None else None
        makers = [item.made] if item.made is not None and source is not None else []
        uses: list[Use] = []
        for use in item.uses:
            side = self._operand_side(use)
            source = source or side
            if side is not None and side == source:
                uses.append(use)
        yield from self._stretch(item.value, makers, uses)

    def _stretch(self, value: Value, makers: list[Use], uses: list[Use]) -> Iterator[_Segment]:
        """The segment of a value, if it is worth one: fetched for a single use it would not stay."""
        if uses and (makers or len({point for point, _ in uses}) > 1):
            point, index = uses[0]
            task = self.whole[point]
            view = task.space.operands[index] if task is not None else None
            assert task is not None
            assert view is not None
            yield _Segment(value, task.operand_bytes(index, Box((0, 0, 0, 0), view.shape)), makers, uses)

    def _assembly(self, merge: Merge) -> _Segment | None:
        """One segment for a whole and all its parts, which are made and read in place."""
        item = self.traffic.get(id(merge.whole))
        parts = [self.traffic.get(id(part)) for part, _ in merge.parts]
        if item is None or not item.uses or item.made is not None:
            return None
        side = self._operand_side(item.uses[0])
        makers: list[Use] = []
        uses = [use for use in item.uses if side is not None and self._operand_side(use) == side]
        for traffic, (_, offset) in zip(parts, merge.parts, strict=True):
            if traffic is None or traffic.made is None or traffic.is_output or side is None:
                return None
            made = self._result_side(traffic.made)
            if made is None or not self._fits_into(made, side, offset, traffic.value):
                return None
            makers.append(traffic.made)
            uses += [use for use in traffic.uses if self._operand_side(use) == made]
        return next(self._stretch(merge.whole, makers, sorted(uses)), None) if uses[:1] else None

    def _fits_into(self, part: Side, whole: Side, offset: int, value: Value) -> bool:
        """Does a part that begins `offset` elements behind the whole's start lie in it as it would by itself?"""
        task = next(task for task in self.whole if task is not None)
        start = merged_start(part[0].shape, offset)
        if part[1] != whole[1] or start is None or whole[0].shape[2:] != part[0].shape[2:]:
            return False
        item = value.tensor.storage.bits // 8
        return task.chip.lmem.part_offset(whole[1], whole[0].shape, item, start, part[0].shape) is not None

    def _result_side(self, made: Use) -> Side | None:
        task = self.whole[made[0]]
        if task is None:
            return None
        return task.space.results[made[1]], task.layouts.results[made[1]]

    def _operand_side(self, use: Use) -> Side | None:
        task = self.whole[use[0]]
        if task is None or use[1] not in self.addressable[use[0]]:
            return None
        view = task.space.operands[use[1]]
        return (view, task.layouts.operands[use[1]]) if view is not None else None

    # -- what fits -----------------------------------------------------------------------------------------------------

    def _sides(self) -> tuple[list[set[int]], list[set[int]]]:
        """Per task the operands and the results that stay."""
        kept: list[set[int]] = [set() for _ in self.tasks]
        held: list[set[int]] = [set() for _ in self.tasks]
        for segment in self.segments:
            for point, index in segment.uses:
                kept[point].add(index)
            for point, index in segment.makers:
                held[point].add(index)
        return kept, held

    def _worst_point(self) -> int | None:
        live = np.zeros(len(self.tasks) + 1, np.int64)
        for segment in self.segments:
            live[segment.start : segment.end + 1] += segment.size
        for point, (kept, held) in enumerate(zip(*self._sides(), strict=True)):
            if kept or held:
                live[point] += self._own_bytes(point, frozenset(kept), frozenset(held))
        live[:-1] += np.where(live[:-1] > 0, self.reserved, 0)
        point = int(live.argmax())
        return point if live[point] > self.capacity else None

    def _own_bytes(self, point: int, kept: frozenset[int], held: frozenset[int]) -> int:
        """Bytes of a tile that are not part of values that stay."""
        key = (point, kept, held)
        if key not in self._own:
            task = self.whole[point]
            assert task is not None
            tile = task.tiles[0]
            need = sum(scratch.bytes_per_lane for scratch in task.scratch(tile))
            need += sum(task.group_layout(group, tile)[0] for group in task.constant_groups)
            for index, box in enumerate(task.boxes(tile)):
                if box is not None and index not in kept:
                    need += task.operand_bytes(index, box)
            for index in range(len(task.node.result_types)):
                if index not in held:
                    need += task.result_bytes(index, task.result_box(tile, index))
            self._own[key] = need
        return self._own[key]

    def _send_away(self, point: int) -> bool:
        """Send the best value that lives at a point without being used there to DDR until its next use."""
        idle = [s for s in self.segments if s.start < point < s.end and point not in s.points]
        if not idle:
            return False
        segment = min(idle, key=lambda s: (self._round_trip(s) / s.size, s.start, s.end))
        if self._dissolve(segment):
            return True
        self.segments.remove(segment)
        before = [use for use in segment.uses if use[0] < point]
        after = [use for use in segment.uses if use[0] > point]
        self.segments += self._stretch(segment.value, segment.makers, before)
        self.segments += self._stretch(segment.value, [], after)
        return True

    def _cut_runs(self) -> None:
        """From the last task on, the longest runs in which everything stays that can; nothing stays between them."""
        everything, chosen, stop = self.segments, list[_Segment](), len(self.tasks)
        while stop > 0:
            low, high, best = 0, stop - 1, list[_Segment]()
            while low < high:  # what fits in a run fits in every shorter one that ends with it
                start = (low + high) // 2
                self.segments = [part for segment in everything for part in self._within(segment, start, stop)]
                if self._worst_point() is None:
                    high, best = start, self.segments
                else:
                    low = start + 1
            chosen += best
            stop = high
        self.segments = chosen

    def _within(self, segment: _Segment, start: int, stop: int) -> Iterator[_Segment]:
        uses = [use for use in segment.uses if start <= use[0] < stop]
        inside = all(start <= made[0] < stop for made in segment.makers)
        yield from self._stretch(segment.value, segment.makers if inside else [], uses)

    def _dissolve(self, segment: _Segment) -> bool:
        """Assemble a value in DDR after all; False for a segment of one value."""
        merge = self.assembled.pop(id(segment.value), None)
        if merge is None:
            return False
        self.segments.remove(segment)
        for value in (merge.whole, *(part for part, _ in merge.parts)):
            self.segments += self._segments(self.traffic[id(value)])
        return True

    def _round_trip(self, segment: _Segment) -> int:
        """Cycles that it costs to store a value, unless that happens anyway, and to load it again."""
        point, index = segment.uses[-1]
        task = self.whole[point]
        view = task.space.operands[index] if task is not None else None
        assert task is not None
        assert view is not None
        cost = self.cycles.load(task, index, Box((0, 0, 0, 0), view.shape))
        item = self.traffic[id(segment.value)]
        return 2 * cost if segment.makers and not item.is_output and len(item.uses) == len(segment.uses) else cost

    def _leave_alone(self, point: int) -> None:
        """Let a task work on tiles from DDR."""
        for segment in [s for s in self.segments if point in s.points]:
            self._dissolve(segment)
        touched = [segment for segment in self.segments if point in segment.points]
        self.whole[point] = None
        for segment in touched:
            self.segments.remove(segment)
            uses = [use for use in segment.uses if use[0] != point]
            if any(made == point for made, _ in segment.makers):
                self.segments += self._stretch(segment.value, [], uses)
            elif segment.makers:
                self.segments += self._stretch(segment.value, segment.makers, uses)
            else:
                self.segments += self._stretch(segment.value, [], uses)

    # -- the answer ----------------------------------------------------------------------------------------------------

    def _residencies(self) -> Iterator[Kept]:
        mine: list[list[_Segment]] = [[] for _ in self.tasks]
        for segment in self.segments:
            for point in sorted(segment.points):
                mine[point].append(segment)
        stays = {use for segment in self.segments if segment.makers for use in segment.uses}
        for point, (task, segments) in enumerate(zip(self.whole, mine, strict=True)):
            yield self._residency(point, task, segments, stays) if task is not None and segments else None

    def _residency(self, point: int, task: TileTask, segments: Sequence[_Segment], stays: set[Use]) -> Kept:
        fetched: set[int] = set()
        kept: set[int] = set()
        held: set[int] = set()
        for segment in segments:
            uses = {index for at, index in segment.uses if at == point}
            (kept if segment.makers or segment.start != point else fetched).update(uses)
            held.update(index for at, index in segment.makers if at == point)
        stored = {index for index, value in enumerate(task.operation.results) if self._is_stored(value, stays)}
        return task, Residency(frozenset(kept), frozenset(fetched), frozenset(held), frozenset(stored))

    def _is_stored(self, value: Value, stays: set[Use]) -> bool:
        """Does anyone read the value, or what it is a part of, from DDR? `stays`: uses that need not."""
        item = self.traffic[id(value)]
        for merge in self.assembled.values():
            if any(part is value for part, _ in merge.parts):
                return _leaves(item, stays) or _leaves(self.traffic[id(merge.whole)], stays)
        return _leaves(item, stays) or not item.uses


def _leaves(item: _Traffic, stays: set[Use]) -> bool:
    return item.is_output or any(use not in stays for use in item.uses)
