"""Choose the values that are resident in local memory between ops.

Initially every value that can be resident is. Where local memory would overflow, either the value that frees most bytes
per cycle of transfers is spilled, or the operation at this point streams its tiles from DDR.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tpuc.api import Value

from tpuc_plan.tasks.aliases import AliasSets, Concat, concat_start
from tpuc_plan.tasks.cost import Cycles
from tpuc_plan.tasks.def_use import DefUse, Use, def_uses
from tpuc_plan.tasks.plan import Residency
from tpuc_plan.tasks.resident_tiling import resident_tiling
from tpuc_plan.tasks.stripes import Cascade
from tpuc_plan.tasks.task import Side, Task, TileTask


@dataclass(eq=False)
class _LiveRange:
    """The points over which a value is resident, from `start` to its last use.

    `defs`: the results that write it; empty if it is preloaded at its first use.
    """

    value: Value
    size: int
    defs: list[Use]
    uses: list[Use]

    @property
    def start(self) -> int:
        return min(self.defs or self.uses)[0]

    @property
    def end(self) -> int:
        return max(point for point, _ in (*self.defs, *self.uses))

    @property
    def points(self) -> set[int]:
        return {point for point, _ in (*self.defs, *self.uses)}


class LmemAllocator:
    """Plans the residency of all tasks of a region. `outputs`: roots of values that are written to DDR. `concats`:
    concatenations that may happen in local memory, if their channels fill whole rows of lanes. `scratch_fraction`
    and `budget` are as in `Settings`.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        outputs: Collection[Value],
        aliases: AliasSets,
        cycles: Cycles,
        concats: Sequence[Concat],
        scratch_fraction: int,
        budget: int,
        cascades: Sequence[Cascade],
    ) -> None:
        self.tasks = list(tasks)
        self.capacity = cycles.chip.lmem.lane_bytes * budget // 100
        self.cycles = cycles
        cuts = [
            resident_tiling(task, scratch_fraction, cycles) if isinstance(task, TileTask) else None
            for task in self.tasks
        ]
        self.whole = [None if cut is None else cut[0] for cut in cuts]
        self.addressable = [frozenset[int]() if cut is None else cut[1] for cut in cuts]
        """Per task, the operands whose parts it can read from the whole."""
        self.reserved = np.zeros(len(self.tasks), np.int64)
        """Bytes per lane that cascades use, by task."""
        for cascade in cascades:
            for point in range(cascade.start, cascade.start + len(cascade.tasks)):
                self.whole[point] = None
                self.reserved[point] = cascade.lane_bytes
        self.outputs = outputs
        found = def_uses(self.tasks, aliases)
        self.def_uses = {value: item for value, item in found.items() if not value.is_constant}
        self._own: dict[tuple[int, frozenset[int], frozenset[int]], int] = {}
        self.lmem_concats: dict[Value, Concat] = {}
        """The concatenations that happen in local memory, by their result."""
        self.live: list[_LiveRange] = []
        for concat in concats:
            live = self._concat(concat)
            if live is not None:
                self.lmem_concats[concat.whole] = concat
                self.live.append(live)
        self._joined = {part for concat in self.lmem_concats.values() for part, _ in concat.parts} | {
            *self.lmem_concats
        }

    def run(self, *, from_tail: bool = False) -> list[TileTask | None]:
        """Return every task with its tiling and residency; None if it streams from DDR or is not a tile task.

        `from_tail`: nothing is resident across groups of tasks, which are cut from the last task on.
        """
        for value, item in self.def_uses.items():
            if value not in self._joined:
                self.live += self._live_ranges(value, item)
        if from_tail:
            self._cut_groups()
        while (point := self._worst_point()) is not None:
            if not self._spill(point):
                self._stream(point)
        return list(self._allocated())

    # -- what could be resident ----------------------------------------------------------------------------------------

    def _live_ranges(self, value: Value, item: DefUse) -> Iterator[_LiveRange]:
        """Yield the live ranges of one value. A value made in DDR has the layout that its first reading tile task
        uses.
        """
        source = self._result_side(item.definition) if item.definition is not None else None
        defs = [item.definition] if item.definition is not None and source is not None else []
        uses: list[Use] = []
        for use in item.uses:
            side = self._operand_side(use)
            source = source or side
            if side is not None and side.agrees(source):
                uses.append(use)
        yield from self._live_range(value, defs, uses)

    def _live_range(self, value: Value, defs: list[Use], uses: list[Use]) -> Iterator[_LiveRange]:
        """Yield a live range over these points, unless it would be preloaded for a single use."""
        if uses and (defs or len({point for point, _ in uses}) > 1):
            point, index = uses[0]
            task = self.whole[point]
            assert task is not None
            side = task.operand(index)
            yield _LiveRange(value, side.lane_bytes(side.shape), defs, uses)

    def _concat(self, concat: Concat) -> _LiveRange | None:
        """Return one live range for a concatenation and all its parts, which are written and read in place; None if
        impossible.
        """
        item = self.def_uses.get(concat.whole)
        parts = [self.def_uses.get(part) for part, _ in concat.parts]
        if item is None or not item.uses or item.definition is not None:
            return None
        side = self._operand_side(item.uses[0])
        defs: list[Use] = []
        uses = [use for use in item.uses if side is not None and self._operand_side(use) == side]
        for part, (value, offset) in zip(parts, concat.parts, strict=True):
            if part is None or part.definition is None or value in self.outputs or side is None:
                return None
            made = self._result_side(part.definition)
            if made is None or not _fits_into(made, side, offset):
                return None
            defs.append(part.definition)
            uses += [use for use in part.uses if self._operand_side(use) == made]
        return next(self._live_range(concat.whole, defs, sorted(uses)), None)

    def _result_side(self, definition: Use) -> Side | None:
        task = self.whole[definition[0]]
        if task is None:
            return None
        return task.results[definition[1]]

    def _operand_side(self, use: Use) -> Side | None:
        task = self.whole[use[0]]
        if task is None or use[1] not in self.addressable[use[0]]:
            return None
        return task.facts.operands[use[1]]

    # -- what fits -----------------------------------------------------------------------------------------------------

    def _sides(self) -> tuple[list[set[int]], list[set[int]]]:
        """Return the resident operands and the resident results of each task."""
        operands: list[set[int]] = [set() for _ in self.tasks]
        results: list[set[int]] = [set() for _ in self.tasks]
        for live in self.live:
            for point, index in live.uses:
                operands[point].add(index)
            for point, index in live.defs:
                results[point].add(index)
        return operands, results

    def _worst_point(self) -> int | None:
        used = np.zeros(len(self.tasks) + 1, np.int64)
        for live in self.live:
            used[live.start : live.end + 1] += live.size
        for point, (operands, results) in enumerate(zip(*self._sides(), strict=True)):
            if operands or results:
                used[point] += self._own_bytes(point, frozenset(operands), frozenset(results))
        used[:-1] += np.where(used[:-1] > 0, self.reserved, 0)
        point = int(used.argmax())
        return point if used[point] > self.capacity else None

    def _own_bytes(self, point: int, operands: frozenset[int], results: frozenset[int]) -> int:
        """Return the bytes per lane of a tile without resident operands and results."""
        key = (point, operands, results)
        if key not in self._own:
            task = self.whole[point]
            assert task is not None
            self._own[key] = task.tile_bytes(task.tiles[0], operands, results)
        return self._own[key]

    def _spill(self, point: int) -> bool:
        """Spill the cheapest value that is live but not used at a point, until its next use; False if there is none."""
        idle = [one for one in self.live if one.start < point < one.end and point not in one.points]
        if not idle:
            return False
        spilled = min(idle, key=lambda one: (self._round_trip(one) / one.size, one.start, one.end))
        if self._dissolve(spilled):
            return True
        self.live.remove(spilled)
        before = [use for use in spilled.uses if use[0] < point]
        after = [use for use in spilled.uses if use[0] > point]
        self.live += self._live_range(spilled.value, spilled.defs, before)
        self.live += self._live_range(spilled.value, [], after)
        return True

    def _cut_groups(self) -> None:
        """Cut the tasks into the longest groups, from the last task on, whose values are all resident."""
        everything, chosen, stop = self.live, list[_LiveRange](), len(self.tasks)
        while stop > 0:
            low, high, best = 0, stop - 1, list[_LiveRange]()
            while low < high:  # what fits in a group fits in every shorter one that ends with it
                start = (low + high) // 2
                self.live = [part for live in everything for part in self._within(live, start, stop)]
                if self._worst_point() is None:
                    high, best = start, self.live
                else:
                    low = start + 1
            chosen += best
            stop = high
        self.live = chosen

    def _within(self, live: _LiveRange, start: int, stop: int) -> Iterator[_LiveRange]:
        uses = [use for use in live.uses if start <= use[0] < stop]
        inside = all(start <= point < stop for point, _ in live.defs)
        yield from self._live_range(live.value, live.defs if inside else [], uses)

    def _dissolve(self, live: _LiveRange) -> bool:
        """Perform a concatenation in DDR after all; False if the live range is that of one value."""
        concat = self.lmem_concats.pop(live.value, None)
        if concat is None:
            return False
        self.live.remove(live)
        for value in (concat.whole, *(part for part, _ in concat.parts)):
            self.live += self._live_ranges(value, self.def_uses[value])
        return True

    def _round_trip(self, live: _LiveRange) -> int:
        """Cycles of writing a value back, unless that happens anyway, and loading it again."""
        point, index = live.uses[-1]
        task = self.whole[point]
        assert task is not None
        side = task.operand(index)
        cost = self.cycles.load(side, side.shape)
        item = self.def_uses[live.value]
        return 2 * cost if live.defs and live.value not in self.outputs and len(item.uses) == len(live.uses) else cost

    def _stream(self, point: int) -> None:
        """Make a task stream its tiles from DDR."""
        for live in [one for one in self.live if point in one.points]:
            self._dissolve(live)
        touched = [one for one in self.live if point in one.points]
        self.whole[point] = None
        for live in touched:
            self.live.remove(live)
            uses = [use for use in live.uses if use[0] != point]
            defs = [] if any(made == point for made, _ in live.defs) else live.defs
            self.live += self._live_range(live.value, defs, uses)

    # -- the result ----------------------------------------------------------------------------------------------------

    def _allocated(self) -> Iterator[TileTask | None]:
        mine: list[list[_LiveRange]] = [[] for _ in self.tasks]
        for live in self.live:
            for point in sorted(live.points):
                mine[point].append(live)
        resident = {use for live in self.live if live.defs for use in live.uses}
        for point, (task, ranges) in enumerate(zip(self.whole, mine, strict=True)):
            if task is None or not ranges:
                yield None
            else:
                yield replace(task, residency=self._residency(point, task, ranges, resident))

    def _residency(self, point: int, task: TileTask, ranges: Sequence[_LiveRange], resident: set[Use]) -> Residency:
        preloaded: set[int] = set()
        operands: set[int] = set()
        results: set[int] = set()
        for live in ranges:
            uses = {index for at, index in live.uses if at == point}
            (operands if live.defs or live.start != point else preloaded).update(uses)
            results.update(index for at, index in live.defs if at == point)
        written = {index for index, value in enumerate(task.operation.results) if self._is_written(value, resident)}
        return Residency(frozenset(operands), frozenset(preloaded), frozenset(results), frozenset(written))

    def _is_written(self, value: Value, resident: set[Use]) -> bool:
        """True if the value, or a concatenation it is part of, is read from DDR. Uses in `resident` do not count."""
        for concat in self.lmem_concats.values():
            if any(part is value for part, _ in concat.parts):
                return self._is_read(value, resident) or self._is_read(concat.whole, resident)
        return self._is_read(value, resident) or not self.def_uses[value].uses

    def _is_read(self, value: Value, resident: set[Use]) -> bool:
        return value in self.outputs or any(use not in resident for use in self.def_uses[value].uses)


def _fits_into(part: Side, whole: Side, offset: int) -> bool:
    """True if a part at `offset` elements of the whole has the same layout there as it would alone."""
    start = concat_start(part.shape, offset)
    if part.layout != whole.layout or start is None or whole.shape[2:] != part.shape[2:]:
        return False
    item = part.element.bits // 8
    return part.lmem.part_offset(whole.layout, whole.shape, item, start, part.shape) is not None
