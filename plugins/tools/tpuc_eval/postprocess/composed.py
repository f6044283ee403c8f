"""Heads of detectors as TOP ops: rows of maps, and boxes in pixels as offsets to anchors."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import Value
from tpuc_ops import top

from tpuc_eval.postprocess.grids import all_corners, as_map
from tpuc_eval.tail import Anchors, Candidates, Tail

SMALLEST = 2.0**-16
"""Minimum side of a box as a fraction of its anchor's; smaller ones have no logarithm."""
TYPICAL = 8
"""Sides of anchors in cells of their map, for boxes in pixels: a power of two near typical box sizes."""


def sorted_rows(tail: Tail, name: str, anchors: int) -> tuple[Value, list[int]]:
    """Return the rows `[images, n, values]` of all maps, and their strides, smallest first. Within a map, rows are
    ordered by line, column, and anchor.
    """
    maps: list[tuple[int, Value]] = []
    for value in tail.outputs:
        dims = value.tensor.dims
        stride, values = as_map(name, np.broadcast_to(np.float32(0), dims[1:]), tail.size, anchors)
        rows, columns, _, count = values.shape
        images, cells = dims[0], rows * columns
        if dims[1:] == (anchors * count, rows, columns):
            value = tail.permute(tail.reshape(value, images, anchors * count, cells), 0, 2, 1)
        elif dims[1:] == (anchors, rows, columns, count) and anchors > 1:
            value = tail.permute(tail.reshape(value, images, anchors, cells, count), 0, 2, 1, 3)
        maps.append((stride, tail.reshape(value, images, cells * anchors, count)))
    maps.sort(key=lambda one: one[0])
    return tail.concat(1, *(value for _, value in maps)), [stride for stride, _ in maps]


def cell_anchors(
    size: tuple[int, int], strides: Sequence[int], shift: float = 0.0
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return cell positions of all maps in pixels, moved by a number of cells, and cell sides `[n, 1]`."""
    cell, stride = all_corners(size, strides)
    return (cell + shift) * stride, stride


def pixel_boxes(tail: Tail, centers: Value, sizes: Value, scores: Value, anchors: Anchors) -> Candidates:
    """Return boxes with these centers and sizes `[images, n, 2]`, in the unit of the anchors."""
    moved = tail(top.Sub(), centers, tail.constant(anchors.centers[None]))
    grown = grown_sizes(tail, sizes, anchors.sizes)
    variances = np.concatenate([1 / anchors.sizes, np.ones_like(anchors.sizes)], axis=1)
    return Candidates(tail.concat(2, moved, grown), scores, dataclasses.replace(anchors, variances=variances))


def distance_boxes(tail: Tail, bins: Value, scores: Value, places: NDArray[Any], stride: NDArray[Any]) -> Candidates:
    """Return boxes by their distances from `places` `[n, 2]`, left, top, right, bottom: means of distributions over
    integer numbers of cells, `[images, n, 4 * bins]` before the softmax.
    """
    images, count, columns = bins.tensor.dims
    shares = tail(top.Softmax(axis=2), tail.reshape(bins, images, count * 4, columns // 4))
    weighted = tail(top.Mul(), shares, tail.constant(np.arange(columns // 4)[None, None]))
    distances = tail(top.Reduce(axes=(2,), mode="ReduceSum", keepdims=False), weighted)
    distances = tail.reshape(distances, images, count, 4)
    before, behind = tail.part(distances, 0, 2), tail.part(distances, 2)
    grown = grown_sizes(tail, tail(top.Add(), before, behind), np.full((1, 2), TYPICAL))
    variances = np.array([0.5 / TYPICAL, 0.5 / TYPICAL, 1, 1])
    anchors = Anchors(places, np.tile(stride * TYPICAL, 2), tail.size, variances)
    return Candidates(tail.concat(2, tail(top.Sub(), behind, before), grown), scores, anchors)


def grown_sizes(tail: Tail, sizes: Value, units: NDArray[Any]) -> Value:
    """Return the logarithms of `sizes` `[images, n, 2]` in `units` `[n, 2]`."""
    shares = tail(top.Mul(), sizes, tail.constant(1 / units[None]))
    return tail(top.Log(), tail(top.MaxConst(const_val=SMALLEST), shares))
