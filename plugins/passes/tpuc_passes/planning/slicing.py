"""Runs of operations whose values pass through local memory in slices of batches and rows, never whole.

Every slice makes its share of what leaves the run. What it needs for that goes backwards through what the kernels read:
rows that two slices need are computed, or loaded, by both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tpuc.api import Box, DictAttr, IntegerAttr, Operation, Shape4, Tile, View

from tpuc_passes.planning.places import origin
from tpuc_passes.planning.residency import Residency
from tpuc_passes.planning.task import TileTask, tiles_of

SLICED = "sliced"

_ROWS_BEFORE = 15
"""Rows by which a window may begin early to begin aligned: as many as addresses of multiples of 16 bytes can need."""

Range: TypeAlias = "tuple[int, int]"
Key: TypeAlias = "tuple[int] | tuple[int, int, int]"
"""Whose slice: the `id` of a value, and for one that a single operation loads for itself its place and operand."""


@dataclass(frozen=True)
class Slicing:
    """As written on each operation of a run: the run's number, batches of a slice, parts that rows are cut into; do
    the operation's constants stay from slice to slice?
    """

    run: int
    batches: int
    parts: int
    resident: bool = True

    @staticmethod
    def of(operation: Operation) -> Slicing | None:
        """As written on an operation."""
        attribute = operation.extra_attributes.get(SLICED)
        if not isinstance(attribute, DictAttr):
            return None
        numbers = {name: item.value for name, item in attribute.items if isinstance(item, IntegerAttr)}
        return Slicing(numbers["run"], numbers["batches"], numbers["parts"], bool(numbers["resident"]))

    def write(self, operation: Operation) -> None:
        """Note it on an operation."""
        items = (
            ("batches", self.batches),
            ("parts", self.parts),
            ("resident", int(self.resident)),
            ("run", self.run),
        )
        operation.extra_attributes[SLICED] = DictAttr(tuple((name, IntegerAttr(value)) for name, value in items))


@dataclass(frozen=True)
class Window:
    """Batches and rows of a value."""

    batches: Range
    rows: Range

    def union(self, other: Window | None) -> Window:
        """The smallest window around both."""
        if other is None:
            return self
        return Window(_around(self.batches, other.batches), _around(self.rows, other.rows))

    def shape(self, whole: Shape4) -> Shape4:
        """Extents of the window of a tensor."""
        return (self.batches[1] - self.batches[0], whole[1], self.rows[1] - self.rows[0], whole[3])

    def box(self, whole: Shape4) -> Box:
        """The window as a part of the tensor."""
        return Box((self.batches[0], 0, self.rows[0], 0), self.shape(whole))


def _around(one: Range, other: Range) -> Range:
    return min(one[0], other[0]), max(one[1], other[1])


@dataclass(frozen=True)
class Slice:
    """What a slice computes: per task its tiles, and where each operand and the result are found.

    `windows`: the part of each value that is in local memory. `keys[task][operand]`: whose; None where it does not come
    by slices. `shares`: per task the rows that are stored, None where the result does not leave.
    """

    tiles: tuple[tuple[Tile, ...], ...]
    windows: dict[Key, Window]
    keys: tuple[tuple[Key | None, ...], ...]
    shares: tuple[Window | None, ...]


class Run:
    """Consecutive tasks under one slicing. `whole`: per task the operands that lie whole in local memory, or are
    fetched whole; `stored`: per task whether the result goes to DDR; `start`: number of the first task; `need`: bytes
    per lane.
    """

    def __init__(
        self,
        tasks: Sequence[TileTask],
        slicing: Slicing,
        whole: Sequence[frozenset[int]],
        stored: Sequence[bool],
        start: int = 0,
        need: int = 0,
    ) -> None:
        self.tasks = tasks
        self.slicing = slicing
        self.whole = whole
        self.stored = stored
        self.start = start
        self.need = need
        self.makers = {id(task.operation.result): point for point, task in enumerate(tasks)}

    @staticmethod
    def of(tasks: Sequence[TileTask], slicing: Slicing) -> Run:
        """A run as written on its operations."""
        made = {id(task.operation.result) for task in tasks}
        residencies = [Residency.of(task.operation) for task in tasks]
        whole = [
            frozenset(
                index
                for index in residency.kept | residency.fetched
                if id(origin(task.operation.operands[index])) not in made
            )
            for task, residency in zip(tasks, residencies, strict=True)
        ]
        return Run(tasks, slicing, whole, [0 in residency.stored for residency in residencies])

    @property
    def count(self) -> int:
        """Slices."""
        batches = max(task.space.results[0].shape[0] for task in self.tasks)
        return -(-batches // self.slicing.batches) * self.slicing.parts

    def slices(self) -> Iterator[Slice]:
        """All slices in order; raises ValueError where one cannot be computed."""
        for number in range(self.count):
            yield self.slice(number)

    def slice(self, number: int) -> Slice:
        """One slice."""
        return Propagation(self, number).run()


class Propagation:
    """Follows what one slice needs from the run's results back to its operands, one task after the other."""

    def __init__(self, run: Run, number: int) -> None:
        self.run_ = run
        self.batch, self.part = divmod(number, run.slicing.parts)
        self.windows: dict[Key, Window] = {}
        self.readers: dict[int, list[tuple[int, int]]] = {}
        self.needs: dict[tuple[int, int], Window] = {}
        self.tiles: list[tuple[Tile, ...]] = [()] * len(run.tasks)
        self.shares: list[Window | None] = [None] * len(run.tasks)

    def run(self) -> Slice:
        """The slice."""
        for point in range(len(self.run_.tasks) - 1, -1, -1):
            self.add(point)
        windows = self.windows | self.loaded()
        keys = tuple(self.keys(point, windows) for point in range(len(self.tiles)))
        return Slice(tuple(self.tiles), windows, keys, (*self.shares,))

    def add(self, point: int) -> None:
        """Take in the task before those that are known; raises ValueError where it cannot be sliced with them."""
        task = self.run_.tasks[point]
        key = id(task.operation.result)
        window = self._needed(key)
        if self.run_.stored[point]:
            share = self.shares[point] = self._share(task.space.results[0])
            window = share.union(window)
        if window is None:
            raise ValueError("a result that nobody reads")
        window = _legal(task, window)
        if key in self.readers:
            window = self._addressable(key, window)
            if window is None:
                raise ValueError("parts of a slice that cannot be addressed")
        axis = task.space.axis("h")
        if axis is not None and axis.limit and window.rows[1] - window.rows[0] > axis.limit:
            raise ValueError("more rows than a tile may have")
        self.windows[(key,)] = window
        whole = _tile(task, window)
        self.tiles[point] = tuple(_tiles(task, whole))
        for index, box in enumerate(task.boxes(whole)):
            if box is None or index in self.run_.whole[point]:
                continue
            value = origin(task.operation.operands[index])
            self.readers.setdefault(id(value), []).append((point, index))
            n, _, h, _ = box.start
            self.needs[point, index] = Window((n, n + box.shape[0]), (h, h + box.shape[2]))

    def _needed(self, key: int) -> Window | None:
        window = None
        for use in self.readers.get(key, ()):
            window = self.needs[use].union(window)
        return window

    def _share(self, view: View) -> Window:
        n, _, h, _ = view.shape
        parts, batches = self.run_.slicing.parts, self.run_.slicing.batches
        first = min(self.batch * batches, n)
        return Window((first, min(first + batches, n)), (h * self.part // parts, h * (self.part + 1) // parts))

    def loaded(self) -> dict[Key, Window]:
        """The windows of what the tasks so far do not make themselves: one for all readers where they can address their
        parts of it and have the same view, else several.
        """
        windows: dict[Key, Window] = {}
        for key, uses in self.readers.items():
            if (key,) in self.windows:
                continue
            sides = {_side(self.run_.tasks[point], index) for point, index in uses}
            window = self._needed(key)
            assert window is not None
            together = self._addressable(key, window) if len(sides) == 1 else None
            if together is not None:
                windows[(key,)] = together
            else:
                windows.update(((key, *use), self.needs[use]) for use in uses)
        return windows

    def _addressable(self, key: int, window: Window) -> Window | None:
        """The window with as few rows before it as let all readers address their tiles' parts."""
        first = window.rows[0]
        for start in range(first, max(first - _ROWS_BEFORE, 0) - 1, -1):
            candidate = replace(window, rows=(start, window.rows[1]))
            if all(self._reads_from(point, index, candidate) for point, index in self.readers[key]):
                return candidate
        return None

    def _reads_from(self, point: int, index: int, window: Window) -> bool:
        task = self.run_.tasks[point]
        boxes = (task.boxes(tile)[index] for tile in self.tiles[point])
        return all(box is None or part_of(task, index, box, window) is not None for box in boxes)

    def keys(self, point: int, windows: Mapping[Key, Window]) -> tuple[Key | None, ...]:
        """Whose window each operand of a task lies in."""
        keys: list[Key | None] = []
        for index, operand in enumerate(self.run_.tasks[point].operation.operands):
            value = id(origin(operand))
            own = (value, point, index)
            keys.append(None if (point, index) not in self.needs else own if own in windows else (value,))
        return tuple(keys)


def part_of(task: TileTask, index: int, box: Box, window: Window) -> tuple[int, Shape4 | None] | None:
    """Offset and strides of the part that a tile reads of an operand of which a window is in local memory; None where
    the kernel cannot address it.
    """
    view = task.space.operands[index]
    assert view is not None
    shape = window.shape(view.shape)
    n, c, h, w = box.start
    start = (n - window.batches[0], c, h - window.rows[0], w)
    lmem, layout = task.chip.lmem, task.layouts.operands[index]
    item = task.node.operand_types[index].storage.bits // 8
    offset = lmem.part_offset(layout, shape, item, start, box.shape)
    if offset is not None:
        return offset, None
    return lmem.part_strides(layout, shape, item, start, box.shape) if index in task.layouts.strided else None


def result_part(task: TileTask, box: Box, window: Window) -> int | None:
    """Offset of a part of the result in the window that is in local memory; None where it cannot be addressed."""
    n, c, h, w = box.start
    start = (n - window.batches[0], c, h - window.rows[0], w)
    item = task.node.result_types[0].storage.bits // 8
    shape = window.shape(task.space.results[0].shape)
    return task.chip.lmem.part_offset(task.layouts.results[0], shape, item, start, box.shape)


def _side(task: TileTask, index: int) -> tuple[View | None, str]:
    return task.space.operands[index], task.layouts.operands[index]


def _legal(task: TileTask, window: Window) -> Window:
    """The window grown to what the kernel's axes allow."""
    ranges = [window.batches, window.rows]
    for number, name in enumerate("nh"):
        axis = task.space.axis(name)
        first, end = ranges[number]
        if axis is None:
            extent = task.space.results[0].shape["nchw".index(name)]
            ranges[number] = (0, extent)
            continue
        unit = max(axis.granularity, 1)
        first = first // unit * unit
        end = min(-(-end // unit) * unit, axis.size)
        first = max(min(first, end - axis.minimum) // unit * unit, 0)
        ranges[number] = (first, min(max(end, first + axis.minimum), axis.size))
    return Window(ranges[0], ranges[1])


def _tile(task: TileTask, window: Window) -> Tile:
    """The slice of a task in one tile."""
    names = tuple(axis.name for axis in task.space.axes)
    ranges = [{"n": window.batches, "h": window.rows}.get(axis.name, (0, axis.size)) for axis in task.space.axes]
    return Tile(names, tuple(first for first, _ in ranges), tuple(end for _, end in ranges))


def _tiles(task: TileTask, whole: Tile) -> Iterator[Tile]:
    """The slice of a task as its tiling cuts channels."""
    if all(axis.name in "nh" or task.sizes[axis.name] >= axis.size for axis in task.space.axes):
        yield whole
        return
    n, _, h, _ = task.space.results[0].shape
    for tile in tiles_of(task.space, {**task.sizes, "n": n, "h": h}):
        yield Tile(
            tile.names,
            tuple(
                own if name in "nh" else first
                for name, own, first in zip(tile.names, whole.starts, tile.starts, strict=True)
            ),
            tuple(
                own if name in "nh" else end for name, own, end in zip(tile.names, whole.stops, tile.stops, strict=True)
            ),
        )
