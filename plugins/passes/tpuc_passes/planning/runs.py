"""Finds runs of operations that gain when slices of rows pass through them in local memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from tpuc.api import Box, Value, View

from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.places import Places, origin
from tpuc_passes.planning.residency import Residency
from tpuc_passes.planning.slicing import Key, Run, Slice, Slicing
from tpuc_passes.planning.steps import Steps
from tpuc_passes.planning.task import Task, TileTask

_LENGTH = 12
"""Operations of a run at most."""
_PARTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32)
"""Numbers of slices of rows that are tried."""
_TRIES = 5
"""Numbers of slices that are tried from the smallest on with which a run fits."""
_APART = 0.3
"""Part of the less busy engine's time that adds to the other's, where buffers have room."""


@dataclass(frozen=True)
class _Piece:
    """A slice: cycles of its transfers, per task cycles and bytes per lane that are in use, and bytes that it loads and
    stores.
    """

    transfers: int
    compute: Sequence[int]
    live: Sequence[int]
    passing: int


@dataclass(frozen=True)
class _Estimate:
    """A run: cycles of transfers, of computing while there is no room for other slices' data and while there is, and
    the bytes per lane that it needs.
    """

    transfers: int
    alone: float
    beside: float
    need: int

    def time(self, more: int) -> float:
        """Estimated time with `more` cycles of transfers elsewhere."""
        return self.alone + _time(self.transfers + more, self.beside)


def _time(transfers: float, compute: float) -> float:
    return max(transfers, compute) + _APART * min(transfers, compute)


@dataclass
class _Value:
    """Where a value is made and used."""

    value: Value
    made: int | None = None
    uses: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


class RunFinder:
    """`leaving`: values that must go to DDR. `places`: which values share bytes there."""

    def __init__(self, tasks: Sequence[Task], leaving: Sequence[Value], cycles: Cycles, places: Places) -> None:
        self.tasks = tasks
        self.cycles = cycles
        self.leaving = {id(origin(value)) for value in leaving}
        self.values: dict[int, _Value] = {}
        for point, task in enumerate(tasks):
            for index, operand in enumerate(task.operation.operands):
                value = origin(operand)
                self.values.setdefault(id(value), _Value(value)).uses.append((point, index))
            for value in task.operation.results:
                self.values.setdefault(id(value), _Value(value)).made = point
        makers = {id(value): point for point, task in enumerate(tasks) for value in task.operation.results}
        self.behind = [
            {
                makers[id(writer)]
                for operand in task.operation.operands
                for writer in places.writers(operand)
                if id(writer) in makers and writer is not origin(operand)
            }
            for task in tasks
        ]
        """Per task those that write its operands but as another value, so that it can only read them from DDR."""
        self.cut = [_cut_for_slices(task) if isinstance(task, TileTask) else None for task in tasks]
        self._known: dict[Hashable, _Estimate | None] = {}
        self._kinds: dict[int, int] = {}
        self._numbers: dict[Hashable, int] = {}

    def run(self, steps: Steps, room: int) -> list[Run]:
        """The runs that save most by their estimates, against the steps of a plan without runs. `room`: bytes per lane
        that they may take.
        """
        before, stays = self._as_planned(steps)
        count = len(self.tasks)
        best = [0.0] * (count + 1)
        choice: list[tuple[int, Slicing, int] | None] = [None] * (count + 1)
        for stop in range(1, count + 1):
            best[stop] = best[stop - 1] + before[stop - 1]
            if stays[stop - 1] or self.cut[stop - 1] is None:
                continue
            for start, cost, slicing, need in self._ending_at(stop, room, stays):
                if best[start] + cost < best[stop]:
                    best[stop] = best[start] + cost
                    choice[stop] = (start, slicing, need)
        found: list[Run] = []
        stop = count
        while stop > 0:
            chosen = choice[stop]
            if chosen is None:
                stop -= 1
                continue
            start, slicing, need = chosen
            found.append(self._run(start, stop, slicing, need))
            stop = start
        return found[::-1]

    def _as_planned(self, steps: Steps) -> tuple[list[float], list[bool]]:
        """Per task its cycles, and whether its result does not go to DDR."""
        points = {id(task.operation): point for point, task in enumerate(self.tasks)}
        transfers, compute, stores = ([0] * len(self.tasks) for _ in range(3))
        for step in steps.steps:
            point = points[id(step.task.operation)]
            compute[point] += step.cycles
            transfers[point] += sum(item.cycles for item in (*step.loads, *step.stores))
            stores[point] += len(step.stores)
        return [_time(*both) for both in zip(transfers, compute, strict=True)], [not count for count in stores]

    def _ending_at(self, stop: int, room: int, stays: Sequence[bool]) -> Iterator[tuple[int, float, Slicing, int]]:
        """Start, estimated time, slicing and bytes of the runs that end before a task.

        The further a run reaches back, the more parts it takes to fit: those that were too few before are not tried.
        """
        fewest = 0
        saves = False
        for start in range(stop - 2, max(stop - _LENGTH, 0) - 1, -1):
            if self.cut[start] is None:
                return
            saves = saves or not stays[start]
            if not saves:
                continue
            found, tried = None, 0
            for number in range(fewest, len(_PARTS)):
                shape = self._estimate(start, stop, Slicing(start, 1, _PARTS[number]), room)
                if shape is None:
                    continue
                if not tried:
                    fewest = number
                tried += 1
                cost = shape.time(self._elsewhere(start, stop, stays))
                if found is None or cost < found[1]:
                    found = (start, cost, Slicing(start, 1, _PARTS[number]), shape.need)
                if tried == _TRIES:
                    break
            if found is None:
                return
            yield found

    # -- one run -------------------------------------------------------------------------------------------------------

    def _run(self, start: int, stop: int, slicing: Slicing, need: int = 0) -> Run:
        tasks = [task for task in self.cut[start:stop] if task is not None]
        stored = [self._leaves(start, stop, task) for task in tasks]
        return Run(tasks, slicing, [frozenset[int]()] * len(tasks), stored, start, need)

    def _leaves(self, start: int, stop: int, task: TileTask) -> bool:
        key = id(task.operation.result)
        uses = self.values[key].uses
        return key in self.leaving or not uses or any(not start <= point < stop for point, _ in uses)

    def _estimate(self, start: int, stop: int, slicing: Slicing, room: int) -> _Estimate | None:
        """What a run would cost; None where it is impossible. Runs that look alike are estimated once."""
        run = self._run(start, stop, slicing)
        if not self._is_possible(run):
            return None
        key = (self._looks(run), slicing.batches, slicing.parts)
        if key not in self._known:
            self._known[key] = self._estimated(run, room)
        return self._known[key]

    def _looks(self, run: Run) -> Hashable:
        numbers: dict[int, int] = {}
        rows: list[Hashable] = []
        for task, stored in zip(run.tasks, run.stored, strict=True):
            values = [id(origin(value)) for value in (*task.operation.operands, *task.operation.results)]
            rows.append((self._kind(task), tuple(numbers.setdefault(v, len(numbers)) for v in values), stored))
        return tuple(rows)

    def _kind(self, task: TileTask) -> int:
        """Equal for tasks that differ in values alone."""
        key = id(task.facts)
        if key not in self._kinds:
            node = task.node
            types = tuple((t.shape, t.storage) for t in (*node.operand_types, *node.result_types))
            looks = (task.operation.op.name, types, task.facts.view, task.kernel.tiling_key(node))
            self._kinds[key] = self._numbers.setdefault(looks, len(self._numbers))
        return self._kinds[key]

    def _estimated(self, run: Run, room: int) -> _Estimate | None:
        """From the first slice, the last and one between."""
        count = run.count
        weights = {0: 1, count - 1: 1}
        weights[count // 2] = weights.get(count // 2, 0) + count - len(weights)
        size, cycles = self._constants(run)
        pieces: list[tuple[int, _Piece]] = []
        rows = [0] * len(run.tasks)
        for number, weight in sorted(weights.items(), key=lambda entry: -entry[1]):  # the usual one needs most
            try:
                slice_ = run.slice(number)
            except ValueError:
                return None
            for point, task in enumerate(run.tasks):
                first, end = slice_.windows[(id(task.operation.result),)].rows
                rows[point] += weight * (end - first)
            piece = self._piece(run, slice_)
            if max(piece.live) + size > room:
                return None
            pieces.append((weight, piece))
        batches = count // run.slicing.parts
        for task, computed in zip(run.tasks, rows, strict=True):
            if 2 * computed > 3 * batches * task.space.results[0].shape[2]:
                return None
        transfers = cycles + sum(weight * piece.transfers for weight, piece in pieces)
        alone = beside = 0.0
        for weight, piece in pieces:
            for own, live in zip(piece.compute, piece.live, strict=True):
                share = min((room - size - live) / max(piece.passing, 1), 1.0)
                beside += weight * own * share
                alone += weight * own * (1 - share)
        return _Estimate(transfers, alone, beside, max(max(piece.live) for _, piece in pieces) + size)

    def _is_possible(self, run: Run) -> bool:
        """Are values that stay within the run seen alike by maker and users, and rows enough?"""
        points = range(run.start, run.start + len(run.tasks))
        if any(maker in points for point in points for maker in self.behind[point]):
            return False
        batches = {task.space.results[0].shape[0] for task in run.tasks}
        if len(batches) > 1:
            return False
        for task in run.tasks:
            view = task.space.results[0]
            if view.shape[2] < run.slicing.parts:
                return False
            for index, operand in enumerate(task.operation.operands):
                point = run.makers.get(id(origin(operand)))
                if point is None:
                    continue
                maker = run.tasks[point]
                made = maker.space.results[0]
                if made.strides is not None or task.space.operands[index] != made:
                    return False
                if task.layouts.operands[index] != maker.layouts.results[0]:
                    return False
        return True

    def _piece(self, run: Run, piece: Slice) -> _Piece:
        transfers = passing = 0
        compute: list[int] = []
        scratch: list[int] = []
        lives: dict[Key, list[int]] = {}
        sizes: dict[Key, int] = {}
        for point, (task, tiles) in enumerate(zip(run.tasks, piece.tiles, strict=True)):
            for index, key in enumerate(piece.keys[point]):
                if key is None:
                    continue
                view = task.space.operands[index]
                assert view is not None
                if key not in lives:
                    box = piece.windows[key].box(view.shape)
                    transfers += self.cycles.load(task, index, box)
                    sizes[key] = task.operand_bytes(index, box)
                    passing += sizes[key]
                lives.setdefault(key, [point, point])[1] = point
            key = (id(task.operation.result),)
            box = piece.windows[key].box(task.space.results[0].shape)
            lives[key] = [point, point]
            sizes[key] = task.result_bytes(0, box)
            if run.stored[point]:
                transfers += self.cycles.store(task, 0, box)
                passing += sizes[key]
            compute.append(sum(self.cycles.compute(task, tile, task.phase(tile), task.boxes(tile)) for tile in tiles))
            scratch.append(max(sum(item.bytes_per_lane for item in task.scratch(tile)) for tile in tiles))
        live = [
            own + sum(sizes[key] for key, (first, last) in lives.items() if first <= point <= last)
            for point, own in enumerate(scratch)
        ]
        return _Piece(transfers, compute, live, passing)

    def _constants(self, run: Run) -> tuple[int, int]:
        """Bytes per lane and cycles of all constants."""
        size = cycles = 0
        for task in run.tasks:
            for group in task.constant_groups:
                seen: set[Hashable] = set()
                for tile in task.tiles:
                    key = task.constant_key(group, tile)
                    if key not in seen:
                        seen.add(key)
                        own, lanes = task.group_layout(group, tile)[0], task.group_lanes(group, tile)
                        size += own
                        cycles += self.cycles.block(own, lanes, group[0].broadcast)
        return size, cycles

    def _elsewhere(self, start: int, stop: int, stays: Sequence[bool]) -> int:
        """Cycles of transfers that others make because the run does not hand on values in local memory."""
        total = 0
        seen: set[int] = set()
        for task in self.tasks[start:stop]:
            for operand in task.operation.operands:
                item = self.values[id(origin(operand))]
                made = item.made
                if made is None or start <= made < stop or not stays[made] or made in seen:
                    continue
                seen.add(made)
                maker = self.tasks[made]
                if isinstance(maker, TileTask):
                    total += self.cycles.store(maker, 0, _whole(maker.space.results[0]))
        for point, task in enumerate(self.tasks[start:stop], start):
            if not stays[point]:
                continue
            for user, index in self.values[id(task.operation.result)].uses:
                reader = self.tasks[user]
                if not start <= user < stop and isinstance(reader, TileTask):
                    view = reader.space.operands[index]
                    total += self.cycles.load(reader, index, _whole(view)) if view is not None else 0
        return total


def write_run(run: Run) -> None:
    """Note a run on its operations."""
    used = {id(origin(operand)) for task in run.tasks for operand in task.operation.operands}
    for task, stored in zip(run.tasks, run.stored, strict=True):
        run.slicing.write(task.operation)
        operands = enumerate(task.operation.operands)
        kept = frozenset(index for index, operand in operands if id(origin(operand)) in run.makers)
        held = frozenset((0,) if id(task.operation.result) in used else ())
        Residency(kept, frozenset(), held, frozenset((0,) if stored else ())).write(task.operation)


def _whole(view: View) -> Box:
    return Box((0, 0, 0, 0), view.shape)


def _cut_for_slices(task: TileTask) -> TileTask | None:
    """The task cut along channels alone, as little as scratch allows; None where it cannot be sliced."""
    space, lmem = task.space, task.chip.lmem
    if len(space.results) != 1 or any({"n", "h"} & {*constant.axes} for constant in task.facts.constants):
        return None
    sizes: dict[str, int] = {}
    for name, extent in zip("nh", (space.results[0].shape[0], space.results[0].shape[2]), strict=True):
        if extent > 1 and space.axis(name) is None:
            return None
    for axis in space.axes:
        sizes[axis.name] = axis.size
        if axis.limit and axis.size > axis.limit and axis.name != "h":
            if axis.name != "c" or not axis.splittable:
                return None
            sizes["c"] = axis.limit // lmem.lanes * lmem.lanes
    return task.with_sizes(sizes) if min(sizes.values()) > 0 else None
