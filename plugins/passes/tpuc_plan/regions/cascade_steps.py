"""Build the steps of a cascade: stripe by stripe, and task by task within a stripe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tpuc.api import Box, Phase, Tile

from tpuc_plan.tasks.cost import Cycles
from tpuc_plan.tasks.steps import Buffer, Place, Step, StepBuilder, Store, TaskSteps
from tpuc_plan.tasks.stripes import Band, Cascade, Key, Stripe
from tpuc_plan.tasks.task import Side, TileTask


@dataclass(frozen=True)
class _Passing:
    """A stripe, and the buffers of its parts that are in local memory so far."""

    stripe: Stripe
    buffers: dict[Key, tuple[Band, Buffer]] = field(default_factory=dict["Key", "tuple[Band, Buffer]"])


class CascadeSteps:
    """Builds the steps of a cascade. Data that two consecutive stripes share is loaded once. If the tiles of the first
    task end with a transfer, it runs one stripe ahead of the others, so they need not wait for it.
    """

    def __init__(self, builder: StepBuilder, cascade: Cascade, cycles: Cycles) -> None:
        self.builder = builder
        self.cascade = cascade
        self.is_ahead = cascade.is_ahead(cycles)
        self.parts = [_StripedSteps(self, point, task, cycles) for point, task in enumerate(cascade.tasks)]
        self.passing: _Passing | None = None

    def run(self) -> None:
        """Append all steps."""
        passing = [_Passing(stripe) for stripe in self.cascade.all()]
        count = len(self.parts)
        ahead = int(self.is_ahead)
        for number in range(len(passing)):
            if number == 0 or not ahead:
                self._append(passing, number, range(ahead))
            if ahead and number + 1 < len(passing):
                self._append(passing, number + 1, range(ahead))
            self._append(passing, number, range(ahead, count))

    def _append(self, passing: Sequence[_Passing], number: int, points: range) -> None:
        """Append the steps of some tasks of a stripe."""
        one = self.passing = passing[number]
        for key, (band, buffer) in passing[number - 1].buffers.items() if number else ():
            if key[0] not in self.cascade.defs and one.stripe.bands.get(key) == band:
                one.buffers.setdefault(key, (band, buffer))
        for point in points:
            self.parts[point].begin()
            for tile in one.stripe.tiles[point]:
                self.builder.result.steps.append(self.parts[point].step(tile))


class _StripedSteps(TaskSteps):
    """The steps of one task of a cascade."""

    def __init__(self, steps: CascadeSteps, point: int, task: TileTask, cycles: Cycles) -> None:
        super().__init__(steps.builder, task, cycles)
        self.common = steps
        self.point = point
        self.resident = steps.cascade.stripes.resident
        self.blocks_there: dict[object, Buffer] = {}

    def begin(self) -> None:
        """Start a new stripe."""
        self.results = [None] * len(self.results)
        self.scratch = {}
        if not self.resident:
            self.loaded_blocks = [None] * len(self.loaded_blocks)

    def operand(self, index: int, box: Box) -> Place:
        common, task = self.common, self.task
        assert common.passing is not None
        key = common.passing.stripe.keys[self.point][index]
        if key is None:
            return super().operand(index, box)
        band = common.passing.stripe.bands[key]
        side = task.operand(index)
        if key not in common.passing.buffers:
            part = band.box(side.shape)
            buffer = common.builder.buffer(side.lane_bytes(part.shape))
            self.load(index, part, buffer)
            common.passing.buffers[key] = (band, buffer)
        return self._place(key, side, box)

    def step(self, tile: Tile) -> Step:
        step, task = super().step(tile), self.task
        if self.point or not self.common.is_ahead:
            return step
        return replace(step, shares=self.cycles.shares(task, tile, step.phase, tuple(task.boxes(tile))))

    def block(self, index: int, tile: Tile) -> Iterator[tuple[str, Buffer, int, int, int]]:
        if not self.resident:
            yield from super().block(index, tile)
            return
        key = (index, self.task.constant_key(self.task.constant_groups[index], tile))
        block = self.blocks[key]
        there = self.blocks_there.get(key)
        self.loaded_blocks[index] = None if there is None else (block, there)
        yield from super().block(index, tile)
        loaded = self.loaded_blocks[index]
        assert loaded is not None
        self.blocks_there[key] = loaded[1]

    def result(self, index: int, tile: Tile, phase: Phase) -> Place:
        common, task = self.common, self.task
        assert common.passing is not None
        key = (task.operation.results[index],)
        band, box = common.passing.stripe.bands[key], task.result_box(tile, index)
        side = task.results[index]
        if key not in common.passing.buffers:
            common.passing.buffers[key] = (band, common.builder.buffer(side.lane_bytes(band.shape(side.shape))))
        return self._place(key, side, box)

    def _place(self, key: Key, side: Side, box: Box) -> Place:
        """Return the place of a part of a band that has a buffer, and extend the buffer's live range to the next
        step.
        """
        assert self.common.passing is not None
        band, buffer = self.common.passing.buffers[key]
        buffer.last = max(buffer.last, self.builder.now)
        found = band.part(side, box)
        assert found is not None, "stripes are made so that their parts can be addressed"
        return Place(buffer, found[0], replace(side.local(box.shape, box.padding), strides=found[1]))

    def stores(self, tile: Tile, results: Sequence[Place]) -> Iterator[Store]:
        common, task = self.common, self.task
        assert common.passing is not None
        share = common.passing.stripe.shares[self.point]
        if share is None:
            return
        value, place, box = task.operation.result, results[0], task.result_box(tile, 0)
        side = task.results[0]
        own = _cut(box, share.box(side.shape))
        band = common.passing.stripe.bands[(value,)]
        part = band.part(side, own)
        if task.cores > 1 and (part is None or part[1] is not None):  # another core stores what lies beyond the share
            part = band.strided_part(side, own)
        elif part is not None and part[1] is not None:
            part = None
        if part is None:  # what lies beyond the share is the same in the other stripe
            own, part = box, (place.offset, None)
        source = Place(place.buffer, part[0], replace(side.local(own.shape), strides=part[1]))
        yield Store(value, source, side.ddr(own), self.cycles.store(side, own.shape))


def _cut(box: Box, share: Box) -> Box:
    """Return the intersection of two boxes."""
    n, c, h, w = map(max, box.start, share.start)
    ends = [[first + extent for first, extent in zip(one.start, one.shape, strict=True)] for one in (box, share)]
    n1, c1, h1, w1 = map(min, *ends)
    return Box((n, c, h, w), (n1 - n, c1 - c, h1 - h, w1 - w))
