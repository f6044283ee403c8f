"""Choose the fastest tiling that fits in local memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from tpuc.api import Axis, Candidate, Chip, LmemOverflow, Node, Operation

from tpuc_plan.planners.alignment import align
from tpuc_plan.tasks.buffers import fitting_buffers, middle_tile, plan_buffers
from tpuc_plan.tasks.cost import Cycles, streamed_cycles
from tpuc_plan.tasks.plan import Residency
from tpuc_plan.tasks.task import KernelFacts, TileTask, tile_count

_MAX_TILES = 4096  # of one op; tilings of more are not tried, which would take long
_MOST_TILES = 1 << 16  # of one op whose smallest tiles alone fit; the plan of more takes hours
PATIENCE = 8  # tilings with more tiles are not tried after this many that were no better


def make_task(operation: Operation, candidate: Candidate, chip: Chip, view: int = 0) -> TileTask:
    """Return an operation as a task with one tile; `view` is the index of the candidate."""
    node = Node.of(operation)
    facts = KernelFacts(node, candidate, chip, view)
    sizes = {axis.name: axis.size for axis in facts.space.axes}
    return TileTask(operation, facts, sizes, Residency.streamed(len(operation.results)))


def choose_tiling(task: TileTask, cycles: Cycles | None = None, patience: int = PATIENCE) -> TileTask:
    """Return the task under its fastest tiling; raises LmemOverflow if not even the smallest tiles fit.

    `patience`: stop after this many tilings without improvement; 0 takes the first that fits. Tilings are tried by
    growing number of tiles.
    """
    cycles = cycles or Cycles(task.chip)
    best: tuple[int, TileTask] | None = None
    worse = 0
    for sizes in _candidates(task):
        candidate = task.with_sizes(sizes)
        buffers = fitting_buffers(candidate) if _may_fit(candidate) else None
        if buffers is None:
            continue
        if not patience:
            return candidate
        cost = streamed_cycles(candidate, buffers, cycles)
        if best is None or cost < best[0]:
            best, worse = (cost, candidate), 0
        else:
            worse += 1
        if worse >= patience:
            break
    if best is not None:
        return best[1]
    smallest = task.with_sizes({axis.name: _sizes_of(axis)[-1] for axis in task.space.axes})
    count = tile_count(task.space, smallest.sizes)
    if count > _MOST_TILES:
        raise LmemOverflow(
            f"node '{task.node.name}': {task.node.op.name} on {task.chip.description.name}: no tiling of up to "
            f"{_MAX_TILES} tiles fits in local memory, and {count} of the smallest tiles are too many to plan; split "
            "the op in the network"
        )
    lane_bytes = plan_buffers(smallest, double=False).lane_bytes(task.chip.lmem)
    if lane_bytes <= task.chip.lmem.lane_bytes:
        return smallest
    raise LmemOverflow(
        f"node '{task.node.name}': {task.node.op.name} on {task.chip.description.name}: the smallest tile needs "
        f"{lane_bytes} bytes of local memory per lane, but only {task.chip.lmem.lane_bytes} exist; split the op in the "
        "network"
    )


def faster_tiling(tiled: TileTask, other: TileTask, cycles: Cycles, patience: int) -> TileTask:
    """Return a task under its tiling, or the same operation in another view, if that is faster."""
    try:
        rival = choose_tiling(other, cycles, patience)
    except LmemOverflow:
        return tiled
    return min((tiled, rival), key=lambda task: _streamed(task, cycles))


def _streamed(task: TileTask, cycles: Cycles) -> float:
    buffers = fitting_buffers(task)
    return math.inf if buffers is None else streamed_cycles(task, buffers, cycles)


def _sizes_of(axis: Axis) -> list[int]:
    """Return the useful tile sizes of an axis, from the whole down to the smallest."""
    if not axis.splittable:
        return [axis.size]  # such an axis is within its limit, or the kernel has refused the node
    unit = max(axis.granularity, 1)
    low = max(axis.minimum, unit)
    limit = axis.limit or axis.size
    sizes = {axis.size} if axis.size <= limit else {limit // unit * unit}
    parts = 2
    while True:
        size = max(math.ceil(axis.size / parts / unit) * unit, low)
        if size < axis.size and size <= limit:
            sizes.add(size)
        if size <= low:
            break
        parts += 1 if parts < 8 else parts // 4
    sizes.add(min(low, axis.size))
    return sorted(sizes, reverse=True)


def rounded_size(axis: Axis, size: int) -> int:
    """Return the smallest tile size along an axis that is at least `size` and a multiple of the granularity."""
    unit = max(axis.granularity, 1)
    return -(-size // unit) * unit


def _candidates(task: TileTask) -> Iterator[dict[str, int]]:
    """Return tile sizes by growing number of tiles, up to `_MAX_TILES` tiles."""
    axes = task.space.axes
    options = [_sizes_of(axis) for axis in axes]
    parts = [[-(-axis.size // size) for size in sizes] for axis, sizes in zip(axes, options, strict=True)]
    counts = np.ones((), np.int64)
    for numbers in parts:
        counts = np.minimum(np.multiply.outer(counts, np.array(numbers, np.int64)), _MAX_TILES + 1)
    shape, counts = counts.shape, counts.reshape(-1)
    few = np.flatnonzero(counts <= _MAX_TILES)
    few = few[np.argsort(counts[few], kind="stable")]
    for places in zip(*(one.tolist() for one in np.unravel_index(few, shape)), strict=True):
        yield {axis.name: sizes[place] for axis, sizes, place in zip(axes, options, places, strict=True)}


def _may_fit(task: TileTask) -> bool:
    """Quick check of the middle tile alone: its results with the copies that `fitting_buffers` would count, and single
    buffers of everything else.
    """
    tile = middle_tile(task)
    lmem = task.chip.lmem
    many = any(task.sizes[axis.name] < axis.size for axis in task.space.axes if not axis.reduction)
    results = [side.lane_bytes(task.result_box(tile, index).shape) for index, side in enumerate(task.results)]
    left = lmem.lane_bytes - (2 if many else 1) * sum(align(size, lmem.alignment) for size in results)
    if left < 0:
        return False
    # In the order of what they cost to find out.
    left -= sum(task.group_layout(group, tile)[0] for group in task.constant_groups)
    for index, box in enumerate(task.boxes(tile) if left >= 0 else ()):
        left -= 0 if box is None else task.operand(index).lane_bytes(box.shape)
    return left >= 0 and sum(scratch.bytes_per_lane for scratch in task.scratch(tile)) <= left
