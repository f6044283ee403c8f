"""Cascades: ops whose values pass through local memory in stripes of batches and rows, never whole.

Every stripe makes its share of the values that are live-out of the cascade. The receptive field of that share goes
backwards through what the kernels read: rows that two stripes need are computed, or loaded, by both.
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
"""Rows by which a band may begin early to begin aligned: as many as addresses of multiples of 16 bytes can need."""

Range: TypeAlias = "tuple[int, int]"
Key: TypeAlias = "tuple[Value] | tuple[Value, int, int]"
"""Whose stripe: a value, and for one that a single operation loads for itself its place and operand."""


@dataclass(frozen=True)
class Band:
    """Batches and rows of a value."""

    batches: Range
    rows: Range

    def union(self, other: Band | None) -> Band:
        """The smallest band around both."""
        if other is None:
            return self
        return Band(_around(self.batches, other.batches), _around(self.rows, other.rows))

    def shape(self, whole: Shape4) -> Shape4:
        """Extents of the band of a tensor."""
        return (self.batches[1] - self.batches[0], whole[1], self.rows[1] - self.rows[0], whole[3])

    def box(self, whole: Shape4) -> Box:
        """The band as a part of the tensor."""
        return Box((self.batches[0], 0, self.rows[0], 0), self.shape(whole))

    def part(self, side: Side, box: Box) -> tuple[int, Shape4 | None] | None:
        """Offset and strides of a tile's part where the band is in local memory; None where the kernel cannot address
        it.
        """
        n, c, h, w = box.start
        return side.part(self.shape(side.shape), (n - self.batches[0], c, h - self.rows[0], w), box.shape)


def _around(one: Range, other: Range) -> Range:
    return min(one[0], other[0]), max(one[1], other[1])


@dataclass(frozen=True)
class Stripe:
    """What a stripe computes: per task its tiles, and where each operand and the result are found.

    `bands`: the part of each value that is in local memory. `keys[task][operand]`: whose; None where it does not come
    by stripes. `shares`: per task the rows that are written back, None where the result is not live-out.
    """

    tiles: tuple[tuple[Tile, ...], ...]
    bands: dict[Key, Band]
    keys: tuple[tuple[Key | None, ...], ...]
    shares: tuple[Band | None, ...]


@dataclass(frozen=True, eq=False)
class Cascade:
    """Consecutive tasks with common stripes. `written_back`: per task whether the result goes to DDR. `whole`: per task
    the operands that lie whole in local memory. `start`: number of the first task. `lane_bytes`: what it takes of a
    lane of local memory.
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
        """As its tasks are planned."""
        made = {task.operation.result for task in tasks}
        whole: list[frozenset[int]] = []
        for task in tasks:
            resident = task.residency.resident_in | task.residency.preloaded
            whole.append(frozenset(i for i in resident if aliases.root(task.operation.operands[i]) not in made))
        stripes = tasks[0].stripes
        assert stripes is not None
        return Cascade(tasks, stripes, [0 in task.residency.written_back for task in tasks], aliases, whole)

    def plans(self) -> Iterator[TilePlan]:
        """The plan of every task."""
        for task, written_back in zip(self.tasks, self.written_back, strict=True):
            operands = enumerate(task.operation.operands)
            resident = frozenset(index for index, operand in operands if self.aliases.root(operand) in self.defs)
            residency = Residency(resident_in=resident, written_back=frozenset((0,) if written_back else ()))
            yield task.plan(residency, self.stripes)

    @cached_property
    def defs(self) -> Mapping[Value, int]:
        """Which task makes each value."""
        return {task.operation.result: point for point, task in enumerate(self.tasks)}

    @property
    def count(self) -> int:
        """Of stripes."""
        batches = max(task.results[0].shape[0] for task in self.tasks)
        return -(-batches // self.stripes.batches) * self.stripes.parts

    def is_ahead(self, cycles: Cycles) -> bool:
        """Is the first task a stripe ahead of the others?"""
        return cycles.end_with_transfers(self.tasks[0], self.stripe(0).tiles[0])

    def all(self) -> Iterator[Stripe]:
        """All stripes in order; raises ValueError where one cannot be computed."""
        for number in range(self.count):
            yield self.stripe(number)

    def stripe(self, number: int) -> Stripe:
        """One stripe; raises ValueError where it cannot be computed."""
        return Propagation(self, number).run()


class Propagation:
    """Follows the receptive field of one stripe from the cascade's results back, one task after the other."""

    def __init__(self, cascade: Cascade, number: int) -> None:
        self.cascade = cascade
        self.root = cascade.aliases.root
        self.batch, self.part = divmod(number, cascade.stripes.parts)
        self.bands: dict[Key, Band] = {}
        self.readers: dict[Value, list[tuple[int, int]]] = {}
        self.fields: dict[tuple[int, int], Band] = {}
        self.tiles: list[tuple[Tile, ...]] = [()] * len(cascade.tasks)
        self.shares: list[Band | None] = [None] * len(cascade.tasks)

    def run(self) -> Stripe:
        """The stripe."""
        for point in range(len(self.cascade.tasks) - 1, -1, -1):
            self.add(point)
        bands = self.bands | self.loaded()
        keys = tuple(self.keys(point, bands) for point in range(len(self.tiles)))
        return Stripe(tuple(self.tiles), bands, keys, (*self.shares,))

    def add(self, point: int) -> None:
        """Take in the task before those that are known; raises ValueError where no stripe passes through both."""
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
        axis = task.space.axis("h")
        if axis is not None and axis.limit and band.rows[1] - band.rows[0] > axis.limit:
            raise ValueError("more rows than a tile may have")
        self.bands[(result,)] = band
        whole = _tile(task, band)
        self.tiles[point] = tuple(_tiles(task, whole))
        for index, box in enumerate(task.boxes(whole)):
            if box is None or index in self.cascade.whole[point]:
                continue
            self.readers.setdefault(self.root(task.operation.operands[index]), []).append((point, index))
            n, _, h, _ = box.start
            self.fields[point, index] = Band((n, n + box.shape[0]), (h, h + box.shape[2]))

    def _receptive_field(self, value: Value) -> Band | None:
        band = None
        for use in self.readers.get(value, ()):
            band = self.fields[use].union(band)
        return band

    def _share(self, shape: Shape4) -> Band:
        n, _, h, _ = shape
        parts, batches = self.cascade.stripes.parts, self.cascade.stripes.batches
        first = min(self.batch * batches, n)
        return Band((first, min(first + batches, n)), (h * self.part // parts, h * (self.part + 1) // parts))

    def loaded(self) -> dict[Key, Band]:
        """The bands of what the tasks so far do not make themselves: one for all readers where they can address their
        parts of it and have the same view, else several.
        """
        bands: dict[Key, Band] = {}
        for value, uses in self.readers.items():
            if (value,) in self.bands:
                continue
            sides = {self.cascade.tasks[point].operand(index) for point, index in uses}
            band = self._receptive_field(value)
            assert band is not None
            together = self._addressable(value, band) if len(sides) == 1 else None
            if together is not None:
                bands[(value,)] = together
            else:
                bands.update(((value, *use), self.fields[use]) for use in uses)
        return bands

    def _addressable(self, value: Value, band: Band, made_by: TileTask | None = None) -> Band | None:
        """The band with as few rows before it as let all readers address their tiles' parts; one that the task that
        makes it can compute.
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
        """Whose band each operand of a task lies in."""
        keys: list[Key | None] = []
        for index, operand in enumerate(self.cascade.tasks[point].operation.operands):
            value = self.root(operand)
            own = (value, point, index)
            keys.append(None if (point, index) not in self.fields else own if own in bands else (value,))
        return tuple(keys)


def _legal(task: TileTask, band: Band) -> Band:
    """The band grown to what the kernel's axes allow."""
    ranges = [band.batches, band.rows]
    for number, name in enumerate("nh"):
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


def _tile(task: TileTask, band: Band) -> Tile:
    """The stripe of a task in one tile."""
    names = tuple(axis.name for axis in task.space.axes)
    ranges = [{"n": band.batches, "h": band.rows}.get(axis.name, (0, axis.size)) for axis in task.space.axes]
    return tile_of(names, ranges)


def _tiles(task: TileTask, whole: Tile) -> Iterator[Tile]:
    """The stripe of a task as its tiling cuts channels."""
    if all(axis.name in "nh" or task.sizes[axis.name] >= axis.size for axis in task.space.axes):
        yield whole
        return
    n, _, h, _ = task.results[0].shape
    for tile in tiles_of(task.space, {**task.sizes, "n": n, "h": h}):
        yield tile_of(tile.names, [(whole if name in "nh" else tile).range(name) for name in tile.names])
