"""Cascades: ops whose values pass through local memory in stripes of batches and rows, never whole.

Every stripe computes its share of the cascade's live-out values. The receptive field of that share is traced back
through the parts that kernels read; rows that two stripes need are computed, or loaded, by both. The columns of a value
with a single row count as its rows: kernels see a sequence either way, at the same places of local memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from tpuc.api import Box, Shape4, Tile, Value

from tpuc_plan.tasks.aliases import AliasSets
from tpuc_plan.tasks.cost import Cycles
from tpuc_plan.tasks.plan import Residency, Stripes, TilePlan
from tpuc_plan.tasks.task import Side, TileTask, tile_of, tiles_of

_ROWS_BEFORE = 15
"""Maximum number of rows that a band may be extended upward to begin aligned; 15 suffice for addresses in multiples of
16 bytes.
"""

Range: TypeAlias = "tuple[int, int]"
Key: TypeAlias = "tuple[Value] | tuple[Value, int, int]"
"""Key of a band: a value, or a value with task and operand index if one operation loads it separately."""


def row_axis(shape: Shape4) -> int:
    """Return the axis of a tensor along which it is cut into stripes: h, or w if there is a single row."""
    return 3 if shape[2] == 1 and shape[3] > 1 else 2


def rows_of(shape: Shape4) -> int:
    """Return the number of rows of a tensor that stripes divide."""
    return shape[row_axis(shape)]


def same_rows(one: Side, other: Side) -> bool:
    """True if both place a value alike in local memory and cut it alike into stripes."""
    if one == other:
        return True
    shapes = (one.shape, other.shape)
    return (
        one.agrees(other) and min(map(min, (shape[2:] for shape in shapes))) == 1 and len({*map(_extents, shapes)}) == 1
    )


def _extents(shape: Shape4) -> tuple[int, int, int, bool]:
    """Return batches, channels, and rows of a tensor, and whether those have more than one element."""
    return shape[0], shape[1], rows_of(shape), min(shape[2:]) > 1


@dataclass(frozen=True)
class Band:
    """Batches and rows of a value, as half-open ranges."""

    batches: Range
    rows: Range

    def union(self, other: Band | None) -> Band:
        """Return the smallest band that contains both."""
        if other is None:
            return self
        return Band(_around(self.batches, other.batches), _around(self.rows, other.rows))

    def shape(self, whole: Shape4) -> Shape4:
        """Return the extents of the band in a tensor of shape `whole`."""
        rows = self.rows[1] - self.rows[0]
        h, w = (rows, whole[3]) if row_axis(whole) == 2 else (whole[2], rows)
        return (self.batches[1] - self.batches[0], whole[1], h, w)

    def box(self, whole: Shape4) -> Box:
        """Return the band as a box of a tensor of shape `whole`."""
        return Box(self._start(whole), self.shape(whole))

    def _start(self, whole: Shape4) -> Shape4:
        h, w = (self.rows[0], 0) if row_axis(whole) == 2 else (0, self.rows[0])
        return (self.batches[0], 0, h, w)

    def _inside(self, whole: Shape4, start: Shape4) -> Shape4:
        """Return an index of a tensor of shape `whole` as an index of the band."""
        n, c, h, w = (at - first for at, first in zip(start, self._start(whole), strict=True))
        return (n, c, h, w)

    def part(self, side: Side, box: Box) -> tuple[int, Shape4 | None] | None:
        """Return offset and strides of a tile's part in the local copy of the band; None if the kernel cannot
        address it.
        """
        return side.part(self.shape(side.shape), self._inside(side.shape, box.start), box.shape)

    def strided_part(self, side: Side, box: Box) -> tuple[int, Shape4 | None] | None:
        """Return offset and strides of a part that a transfer can address in the local copy; None if it cannot."""
        start, item = self._inside(side.shape, box.start), side.element.bits // 8
        return side.lmem.part_strides(side.layout, self.shape(side.shape), item, start, box.shape)

    @staticmethod
    def of(whole: Shape4, box: Box) -> Band:
        """Return the smallest band of a tensor of shape `whole` that contains a box."""
        n, row, axis = box.start[0], box.start[row_axis(whole)], row_axis(whole)
        return Band((n, n + box.shape[0]), (row, row + box.shape[axis]))


def _around(one: Range, other: Range) -> Range:
    return min(one[0], other[0]), max(one[1], other[1])


@dataclass(frozen=True)
class Stripe:
    """The work of one stripe: per task its tiles, and where each operand and the result are found.

    `bands`: the part of each value in local memory. `keys[task][operand]`: key of the band, None if the operand does
    not come in stripes. `shares`: per task the rows to write back, None if the result is not live-out.
    """

    tiles: tuple[tuple[Tile, ...], ...]
    bands: dict[Key, Band]
    keys: tuple[tuple[Key | None, ...], ...]
    shares: tuple[Band | None, ...]


@dataclass(frozen=True, eq=False)
class Cascade:
    """Consecutive tasks with common stripes. `written_back`: per task, whether the result goes to DDR. `whole`: per
    task, the operands that are whole in local memory. `start`: index of the first task. `lane_bytes`: bytes per lane
    that it uses.
    """

    tasks: Sequence[TileTask]
    stripes: Stripes
    written_back: Sequence[bool]
    aliases: AliasSets
    whole: Sequence[frozenset[int]]
    start: int = 0
    lane_bytes: int = 0

    @staticmethod
    def of(tasks: Sequence[TileTask], aliases: AliasSets) -> Cascade:
        """Build the cascade from planned tasks."""
        made = {task.operation.result for task in tasks}
        whole: list[frozenset[int]] = []
        for task in tasks:
            resident = task.residency.resident_in | task.residency.preloaded
            whole.append(frozenset(i for i in resident if aliases.root(task.operation.operands[i]) not in made))
        stripes = tasks[0].stripes
        assert stripes is not None
        return Cascade(tasks, stripes, [0 in task.residency.written_back for task in tasks], aliases, whole)

    def plans(self) -> Iterator[TilePlan]:
        """Yield the plan of every task."""
        for task, written_back in zip(self.tasks, self.written_back, strict=True):
            operands = enumerate(task.operation.operands)
            resident = frozenset(index for index, operand in operands if self.aliases.root(operand) in self.defs)
            residency = Residency(resident_in=resident, written_back=frozenset((0,) if written_back else ()))
            yield task.plan(residency, self.stripes)

    @cached_property
    def defs(self) -> Mapping[Value, int]:
        """Maps each value to the task that produces it."""
        return {task.operation.result: point for point, task in enumerate(self.tasks)}

    @property
    def count(self) -> int:
        """Number of stripes."""
        batches = max(task.results[0].shape[0] for task in self.tasks)
        return -(-batches // self.stripes.batches) * self.stripes.parts

    def is_ahead(self, cycles: Cycles) -> bool:
        """True if the first task runs a stripe ahead of the others."""
        return cycles.end_with_transfers(self.tasks[0], self.stripe(0).tiles[0])

    def all(self) -> Iterator[Stripe]:
        """Yield all stripes of a core in order; raises ValueError if one cannot be computed."""
        for number in self.tasks[0].part_of(self.count):
            yield self.stripe(number)

    def stripe(self, number: int) -> Stripe:
        """Return one stripe; raises ValueError if it cannot be computed."""
        return Propagation(self, number).run()


class Propagation:
    """Traces the receptive field of one stripe backwards from the cascade's results, one task at a time."""

    def __init__(self, cascade: Cascade, number: int) -> None:
        self.cascade = cascade
        self.root = cascade.aliases.root
        self.batch, self.part = divmod(number, cascade.stripes.parts)
        self.bands: dict[Key, Band] = {}
        self.readers: dict[Value, list[tuple[int, int]]] = {}
        self.fields: dict[tuple[int, int], Band] = {}
        self.tiles: list[tuple[Tile, ...]] = [()] * len(cascade.tasks)
        self.shares: list[Band | None] = [None] * len(cascade.tasks)
        self.by_tiles: list[tuple[int, ...]] = [()] * len(cascade.tasks)
        """Per task, the constant operands with some of whose channels a tile begins and ends: bands would have all."""

    def run(self) -> Stripe:
        """Return the stripe."""
        for point in range(len(self.cascade.tasks) - 1, -1, -1):
            self.add(point)
        bands = self.bands | self.loaded()
        keys = tuple(self.keys(point, bands) for point in range(len(self.tiles)))
        return Stripe(tuple(self.tiles), bands, keys, (*self.shares,))

    def add(self, point: int) -> None:
        """Add the task before the known ones; raises ValueError if no stripe can pass through it."""
        task = self.cascade.tasks[point]
        result = task.operation.result
        band = self._receptive_field(result)
        if self.cascade.written_back[point]:
            share = self.shares[point] = self._share(task.results[0].shape)
            band = share.union(band)
        if band is None:
            raise ValueError("a result that nobody reads")
        band = _legal(task, band)
        if result in self.readers:
            band = self._addressable(result, band, task)
            if band is None:
                raise ValueError("parts of a stripe that cannot be addressed")
        axis = task.space.axis(_row_name(task))
        if axis is not None and axis.limit and band.rows[1] - band.rows[0] > axis.limit:
            raise ValueError("more rows than a tile may have")
        self.bands[(result,)] = band
        whole = _tile(task, band)
        self.tiles[point] = tuple(_tiles(task, whole))
        for index, box in enumerate(task.boxes(whole)):
            if box is None or index in self.cascade.whole[point]:
                continue
            if task.operation.operands[index].is_constant and box.shape[1] < task.operand(index).shape[1]:
                self.by_tiles[point] = (*self.by_tiles[point], index)
                continue
            cut, extents = row_axis(task.results[0].shape), task.operand(index).shape
            if row_axis(extents) != cut and box.shape[cut] < extents[cut]:
                raise ValueError("columns of several rows, of which a band has all")
            self.readers.setdefault(self.root(task.operation.operands[index]), []).append((point, index))
            self.fields[point, index] = Band.of(task.operand(index).shape, box)

    def _receptive_field(self, value: Value) -> Band | None:
        band = None
        for use in self.readers.get(value, ()):
            band = self.fields[use].union(band)
        return band

    def _share(self, shape: Shape4) -> Band:
        n, rows = shape[0], rows_of(shape)
        parts, batches = self.cascade.stripes.parts, self.cascade.stripes.batches
        first = min(self.batch * batches, n)
        return Band((first, min(first + batches, n)), (rows * self.part // parts, rows * (self.part + 1) // parts))

    def loaded(self) -> dict[Key, Band]:
        """Return the bands of values that the tasks so far do not produce: one for all readers if they have the same
        view and can address their parts of it, else one per reader.
        """
        bands: dict[Key, Band] = {}
        for value, uses in self.readers.items():
            if (value,) in self.bands:
                continue
            sides = [self.cascade.tasks[point].operand(index) for point, index in uses]
            band = self._receptive_field(value)
            assert band is not None
            joint = self._addressable(value, band) if all(same_rows(sides[0], side) for side in sides) else None
            if joint is not None:
                bands[(value,)] = joint
            else:
                bands.update(((value, *use), self.fields[use]) for use in uses)
        return bands

    def _addressable(self, value: Value, band: Band, made_by: TileTask | None = None) -> Band | None:
        """Extend the band upward by as few rows as needed for all readers to address their tiles' parts, and for the
        producing task to compute it; None if impossible.
        """
        first = band.rows[0]
        for start in range(first, max(first - _ROWS_BEFORE, 0) - 1, -1):
            candidate = replace(band, rows=(start, band.rows[1]))
            if made_by is not None and _legal(made_by, candidate) != candidate:
                continue
            if all(self._reads_from(point, index, candidate) for point, index in self.readers[value]):
                return candidate
        return None

    def _reads_from(self, point: int, index: int, band: Band) -> bool:
        task = self.cascade.tasks[point]
        boxes = (task.boxes(tile)[index] for tile in self.tiles[point])
        return all(box is None or band.part(task.operand(index), box) is not None for box in boxes)

    def keys(self, point: int, bands: Mapping[Key, Band]) -> tuple[Key | None, ...]:
        """Return the key of the band that each operand of a task lies in."""
        keys: list[Key | None] = []
        for index, operand in enumerate(self.cascade.tasks[point].operation.operands):
            value = self.root(operand)
            own = (value, point, index)
            keys.append(None if (point, index) not in self.fields else own if own in bands else (value,))
        return tuple(keys)


def _legal(task: TileTask, band: Band) -> Band:
    """Grow the band to granularity and minimum of the kernel's axes."""
    ranges = [band.batches, band.rows]
    for number, name in enumerate(("n", _row_name(task))):
        axis = task.space.axis(name)
        first, end = ranges[number]
        if axis is None:
            extent = task.results[0].shape["nchw".index(name)]
            ranges[number] = (0, extent)
            continue
        unit = max(axis.granularity, 1)
        first = first // unit * unit
        end = min(-(-end // unit) * unit, axis.size)
        first = max(min(first, end - axis.minimum) // unit * unit, 0)
        ranges[number] = (first, min(max(end, first + axis.minimum), axis.size))
    return Band(ranges[0], ranges[1])


def _row_name(task: TileTask) -> str:
    """Return the name of the axis along which a task's result is cut into stripes."""
    return "nchw"[row_axis(task.results[0].shape)]


def _tile(task: TileTask, band: Band) -> Tile:
    """Return the stripe of a task as one tile."""
    names = tuple(axis.name for axis in task.space.axes)
    own = {"n": band.batches, _row_name(task): band.rows}
    ranges = [own.get(axis.name, (0, axis.size)) for axis in task.space.axes]
    return tile_of(names, ranges)


def _tiles(task: TileTask, whole: Tile) -> Iterator[Tile]:
    """Yield the tiles of a stripe, cut along channels as in the task's tiling."""
    cut = ("n", _row_name(task))
    if all(axis.name in cut or task.sizes[axis.name] >= axis.size for axis in task.space.axes):
        yield whole
        return
    shape = task.results[0].shape
    for tile in tiles_of(task.space, {**task.sizes, cut[0]: shape[0], cut[1]: rows_of(shape)}):
        yield tile_of(tile.names, [(whole if name in cut else tile).range(name) for name in tile.names])
