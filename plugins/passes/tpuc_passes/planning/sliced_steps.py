"""The steps of a run of operations under slices: slice by slice, in each of them task by task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tpuc.api import Box, LocalTensor, Phase, Shape4, Tile

from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.residency import Residency
from tpuc_passes.planning.slicing import Key, Run, Slice, Slicing, Window, part_of, result_part
from tpuc_passes.planning.steps import Buffer, Place, Step, StepBuilder, Store, TaskSteps, ddr_part
from tpuc_passes.planning.task import TileTask


class RunSteps:
    """Builds the steps of a run. What two slices in a row load alike is loaded once."""

    def __init__(self, builder: StepBuilder, run: Run, cycles: Cycles) -> None:
        self.builder = builder
        self.run_ = run
        self.parts = [_SlicedSteps(self, point, task, cycles) for point, task in enumerate(run.tasks)]
        self.buffers: dict[Key, tuple[Window, Buffer]] = {}
        self.slice: Slice | None = None

    def run(self) -> Iterator[Step]:
        """All steps, one by one."""
        for slice_ in self.run_.slices():
            self.slice = slice_
            self.buffers = {
                key: (window, buffer)
                for key, (window, buffer) in self.buffers.items()
                if key[0] not in self.run_.makers and slice_.windows.get(key) == window
            }
            for part, tiles in zip(self.parts, slice_.tiles, strict=True):
                part.begin()
                for tile in tiles:
                    yield self.builder.append(part.step(tile))


class _SlicedSteps(TaskSteps):
    """The steps of one task of a run."""

    def __init__(self, run: RunSteps, point: int, task: TileTask, cycles: Cycles) -> None:
        super().__init__(run.builder, task, Residency.of(task.operation), cycles)
        self.run_ = run
        self.point = point
        slicing = Slicing.of(task.operation)
        self.resident = slicing is None or slicing.resident
        self.blocks_there: dict[object, Buffer] = {}

    def begin(self) -> None:
        """A slice begins."""
        self.results = [None] * len(self.results)
        self.scratch = {}
        if not self.resident:
            self.held_blocks = [None] * len(self.held_blocks)

    def operand(self, index: int, box: Box) -> Place:
        run, task = self.run_, self.task
        assert run.slice is not None
        key = run.slice.keys[self.point][index]
        if key is None:
            return super().operand(index, box)
        window = run.slice.windows[key]
        view = task.space.operands[index]
        assert view is not None
        if key not in run.buffers:
            part = window.box(view.shape)
            buffer = run.builder.buffer(task.operand_bytes(index, part))
            self.load(index, part, buffer)
            run.buffers[key] = (window, buffer)
        buffer = run.buffers[key][1]
        buffer.last = max(buffer.last, run.builder.now)
        found = part_of(task, index, box, window)
        assert found is not None, "slices are made so that their parts can be addressed"
        element = task.node.operand_types[index].storage
        tensor = LocalTensor(0, box.shape, task.layouts.operands[index], element, box.padding, strides=found[1])
        return Place(buffer, found[0], tensor)

    def block(self, index: int, tile: Tile) -> Iterator[tuple[str, Buffer, int, int, int]]:
        if not self.resident:
            yield from super().block(index, tile)
            return
        key = (index, self.task.constant_key(self.task.constant_groups[index], tile))
        block = self.blocks[key]
        there = self.blocks_there.get(key)
        self.held_blocks[index] = None if there is None else (block, there)
        yield from super().block(index, tile)
        held = self.held_blocks[index]
        assert held is not None
        self.blocks_there[key] = held[1]

    def result(self, index: int, tile: Tile, phase: Phase) -> Place:
        run, task = self.run_, self.task
        assert run.slice is not None
        key = (id(task.operation.results[index]),)
        window, box = run.slice.windows[key], task.result_box(tile, index)
        if key not in run.buffers:
            part = window.box(task.space.results[index].shape)
            run.buffers[key] = (window, run.builder.buffer(task.result_bytes(index, part)))
        buffer = run.buffers[key][1]
        buffer.last = max(buffer.last, run.builder.now)
        offset = result_part(task, box, window)
        assert offset is not None, "slices are made so that their parts can be addressed"
        element = task.node.result_types[index].storage
        return Place(buffer, offset, LocalTensor(0, box.shape, task.layouts.results[index], element))

    def stores(self, tile: Tile, results: Sequence[Place]) -> Iterator[Store]:
        run, task = self.run_, self.task
        assert run.slice is not None
        share = run.slice.shares[self.point]
        if share is None:
            return
        value, place, box = task.operation.result, results[0], task.result_box(tile, 0)
        own = _cut(box, share)
        offset = result_part(task, own, run.slice.windows[(id(value),)])
        if offset is None:  # what lies beyond the share is the same in the other slice
            own, offset = box, place.offset
        element = task.node.result_types[0].storage
        part = Place(place.buffer, offset, LocalTensor(0, own.shape, task.layouts.results[0], element))
        target = ddr_part(value, task.space.results[0], own)
        yield Store(value, part, target, self.cycles.store(task, 0, own))


def _cut(box: Box, share: Window) -> Box:
    """The batches and rows of a part that lie within a share."""
    n, c, h, w = box.start
    n1, h1 = n + box.shape[0], h + box.shape[2]
    n, n1 = max(n, share.batches[0]), min(n1, share.batches[1])
    h, h1 = max(h, share.rows[0]), min(h1, share.rows[1])
    shape: Shape4 = (n1 - n, box.shape[1], h1 - h, box.shape[3])
    return Box((n, c, h, w), shape)
