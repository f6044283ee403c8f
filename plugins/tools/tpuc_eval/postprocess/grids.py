"""Output maps of detectors: their cells, and the assignment of outputs to strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import UsageError

STRIDES = (8, 16, 32)
"""Pixels per cell of the three maps of YOLO detectors and YuNet."""


def cells(size: tuple[int, int], stride: int) -> tuple[int, int]:
    """Return rows and columns of a map over an input of `size` (width, height)."""
    return -(-size[1] // stride), -(-size[0] // stride)


def cell_count(size: tuple[int, int], strides: Sequence[int] = STRIDES) -> int:
    """Return the number of cells of all maps."""
    return sum(rows * columns for rows, columns in (cells(size, stride) for stride in strides))


def corners(rows: int, columns: int) -> NDArray[np.float64]:
    """Return column and row of every cell, `[rows, columns, 2]`."""
    y, x = np.mgrid[:rows, :columns]
    return np.stack([x, y], axis=-1).astype(np.float64)


def all_corners(size: tuple[int, int], strides: Sequence[int] = STRIDES) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return column and row `[n, 2]` and stride `[n, 1]` of the cells of all maps, concatenated."""
    maps = [corners(*cells(size, stride)).reshape(-1, 2) for stride in strides]
    sizes = [np.full((len(one), 1), stride, np.float64) for one, stride in zip(maps, strides, strict=True)]
    return np.concatenate(maps), np.concatenate(sizes)


def as_map(name: str, array: NDArray[Any], size: tuple[int, int], anchors: int) -> tuple[int, NDArray[np.float64]]:
    """Return the stride of one output without batch, and its values `[rows, columns, anchors, values]`.

    The output is channels first (`[a * v, h, w]`), channels last (`[h, w, a * v]`), or has an anchor axis (`[a, h, w,
    v]`, `[h, w, a, v]`). Raises UsageError for anything else.
    """
    for stride in (4, *STRIDES, 64, 128):
        rows, columns = cells(size, stride)
        if array.ndim == 3 and array.shape[1:] == (rows, columns) and array.shape[0] % anchors == 0:
            return stride, array.reshape(anchors, -1, rows, columns).transpose(2, 3, 0, 1)
        if array.ndim == 3 and array.shape[:2] == (rows, columns) and array.shape[2] % anchors == 0:
            return stride, array.reshape(rows, columns, anchors, -1)
        if array.ndim == 4 and array.shape[:3] == (anchors, rows, columns):
            return stride, array.transpose(1, 2, 0, 3)
        if array.ndim == 4 and array.shape[:3] == (rows, columns, anchors):
            return stride, array
    raise UsageError(
        f"post-processing '{name}': an output of shape {array.shape} is not a map with {anchors} anchor(s) over an "
        f"input of {size[0]}x{size[1]}; choose another --postprocess."
    )


def are_maps(shapes: Sequence[tuple[int, ...]], size: tuple[int, int], anchors: int, least: int) -> bool:
    """True if these outputs (with batch) are maps of different strides, each with at least `least` values per
    anchor.
    """
    found: list[int] = []
    for shape in shapes:
        try:
            stride, values = as_map("", np.broadcast_to(np.float64(0), shape[1:]), size, anchors)
        except UsageError:
            return False
        if values.shape[3] < least:
            return False
        found.append(stride)
    return len(found) > 1 and len(set(found)) == len(found)
