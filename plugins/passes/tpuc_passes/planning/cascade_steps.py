"""The steps of a cascade: stripe by stripe, in each of them task by task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tpuc.api import Box, Phase, Shape4, Tile

from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.steps import Buffer, Place, StepBuilder, Store, TaskSteps
from tpuc_passes.planning.stripes import Band, Cascade, Key, Stripe
from tpuc_passes.planning.task import Side, TileTask


class CascadeSteps:
    """Builds the steps of a cascade. What two stripes in a row load alike is loaded once."""

    def __init__(self, builder: StepBuilder, cascade: Cascade, cycles: Cycles) -> None:
        self.builder = builder
        self.cascade = cascade
        self.parts = [_StripedSteps(self, point, task, cycles) for point, task in enumerate(cascade.tasks)]
        self.buffers: dict[Key, tuple[Band, Buffer]] = {}
        self.stripe: Stripe | None = None

    def run(self) -> None:
        """Append all steps."""
        for stripe in self.cascade.all():
            self.stripe = stripe
            self.buffers = {
                key: (band, buffer)
                for key, (band, buffer) in self.buffers.items()
                if key[0] not in self.cascade.defs and stripe.bands.get(key) == band
            }
            for part, tiles in zip(self.parts, stripe.tiles, strict=True):
                part.begin()
                for tile in tiles:
                    self.builder.result.steps.append(part.step(tile))


class _StripedSteps(TaskSteps):
    """The steps of one task of a cascade."""

    def __init__(self, steps: CascadeSteps, point: int, task: TileTask, cycles: Cycles) -> None:
        super().__init__(steps.builder, task, cycles)
        self.common = steps
        self.point = point
        self.resident = steps.cascade.stripes.resident
        self.blocks_there: dict[object, Buffer] = {}

    def begin(self) -> None:
        """A stripe begins."""
        self.results = [None] * len(self.results)
        self.scratch = {}
        if not self.resident:
            self.loaded_blocks = [None] * len(self.loaded_blocks)

    def operand(self, index: int, box: Box) -> Place:
        common, task = self.common, self.task
        assert common.stripe is not None
        key = common.stripe.keys[self.point][index]
        if key is None:
            return super().operand(index, box)
        band = common.stripe.bands[key]
        side = task.operand(index)
        if key not in common.buffers:
            part = band.box(side.shape)
            buffer = common.builder.buffer(side.lane_bytes(part.shape))
            self.load(index, part, buffer)
            common.buffers[key] = (band, buffer)
        return self._place(key, side, box)

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
        assert common.stripe is not None
        key = (task.operation.results[index],)
        band, box = common.stripe.bands[key], task.result_box(tile, index)
        side = task.results[index]
        if key not in common.buffers:
            common.buffers[key] = (band, common.builder.buffer(side.lane_bytes(band.shape(side.shape))))
        return self._place(key, side, box)

    def _place(self, key: Key, side: Side, box: Box) -> Place:
        """A part of a band that has a buffer; the next step uses it."""
        band, buffer = self.common.buffers[key]
        buffer.last = max(buffer.last, self.builder.now)
        found = band.part(side, box)
        assert found is not None, "stripes are made so that their parts can be addressed"
        return Place(buffer, found[0], replace(side.local(box.shape, box.padding), strides=found[1]))

    def stores(self, tile: Tile, results: Sequence[Place]) -> Iterator[Store]:
        common, task = self.common, self.task
        assert common.stripe is not None
        share = common.stripe.shares[self.point]
        if share is None:
            return
        value, place, box = task.operation.result, results[0], task.result_box(tile, 0)
        own, side = _cut(box, share), task.results[0]
        part = common.stripe.bands[(value,)].part(side, own)
        if part is None or part[1] is not None:  # what lies beyond the share is the same in the other stripe
            own, part = box, (place.offset, None)
        source = Place(place.buffer, part[0], side.local(own.shape))
        yield Store(value, source, side.ddr(own), self.cycles.store(side, own.shape))


def _cut(box: Box, share: Band) -> Box:
    """The batches and rows of a part that lie within a share."""
    n, c, h, w = box.start
    n1, h1 = n + box.shape[0], h + box.shape[2]
    n, n1 = max(n, share.batches[0]), min(n1, share.batches[1])
    h, h1 = max(h, share.rows[0]), min(h1, share.rows[1])
    shape: Shape4 = (n1 - n, box.shape[1], h1 - h, box.shape[3])
    return Box((n, c, h, w), shape)
