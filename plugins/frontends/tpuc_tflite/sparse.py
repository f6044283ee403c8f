"""Weights that store only nonzero values.

A sparse weight is a tree: `traversal_order` states which dimension each level covers. Levels are dense, with a child
for every index, or compressed: node `i` has a child for each of `indices[segments[i]:segments[i + 1]]`. The stored
values are the leaves in order. Dimensions from the rank on are positions inside blocks of the dimensions in `block_map`
(schema.fbs of TFLite, SparsityParameters; the layout of the TACO paper, arXiv:1804.10112).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc_ops.arrays import Array

from tpuc_tflite.graph import Shape


@dataclass(frozen=True)
class Level:
    """One level of the tree: dense with `size` children per node, or compressed if `segments` are given."""

    size: int
    segments: Array | None = None
    indices: Array | None = None


def densify(
    values: Array, shape: Shape, order: Sequence[int], block_map: Sequence[int], levels: Sequence[Level]
) -> Array:
    """Return the dense weight, zero where no value is stored. Raises ValueError for inconsistent parts."""
    rank, depth = len(shape), len(shape) + len(block_map)
    if sorted(order) != list(range(depth)) or len(levels) != depth:
        raise ValueError(f"its {len(levels)} levels cover the dimensions {', '.join(map(str, order))} of {depth}")
    blocks = dict(zip(block_map, _block_sizes(order, levels, rank), strict=True))
    if len(blocks) < len(block_map) or any(not 0 <= axis < rank or shape[axis] % blocks[axis] for axis in blocks):
        raise ValueError("its blocks do not divide its dimensions")
    steps = [math.prod(shape[axis + 1 :]) for axis in range(rank)]
    sizes = [*(size // blocks.get(axis, 1) for axis, size in enumerate(shape)), *(blocks[axis] for axis in block_map)]
    steps = [*(step * blocks.get(axis, 1) for axis, step in enumerate(steps)), *(steps[axis] for axis in block_map)]
    places = np.zeros(1, np.int64)
    for axis, level in zip(order, levels, strict=True):
        places = _children(places, steps[axis], level, sizes[axis])
    if places.size != values.size:
        raise ValueError(f"it has room for {places.size} values but stores {values.size}")
    result = np.zeros(math.prod(shape), values.dtype)
    result[places] = values
    return result.reshape(shape)


def _block_sizes(order: Sequence[int], levels: Sequence[Level], rank: int) -> list[int]:
    """Return the size of every block dimension; their levels are dense."""
    sizes = {axis: level.size for axis, level in zip(order, levels, strict=True) if axis >= rank}
    if min(sizes.values(), default=1) < 1:
        raise ValueError("it has blocks without elements")
    return [sizes[axis] for axis in sorted(sizes)]


def _children(places: Array, step: int, level: Level, size: int) -> Array:
    """Return where the nodes of the next level begin in the dense weight, in order; `places`: those of the level
    above.
    """
    if level.segments is None or level.indices is None:
        if level.size != size:
            raise ValueError(f"a dense level has {level.size} positions, but the dimension has {size}")
        return (places[:, None] + step * np.arange(size)).reshape(-1)
    ends, indices = level.segments.astype(np.int64), level.indices.astype(np.int64)
    counts = np.diff(ends)
    if ends.size != places.size + 1 or ends[0] != 0 or ends[-1] != indices.size or (counts < 0).any():
        raise ValueError(f"a compressed level has {ends.size} segment ends for {places.size} nodes")
    if indices.size and not 0 <= indices.min() <= indices.max() < size:
        raise ValueError(f"a compressed level names a position outside of 0 to {size - 1}")
    return np.repeat(places, counts) + step * indices
