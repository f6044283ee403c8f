"""Resize images bit for bit like OpenCV's `INTER_LINEAR` and `INTER_AREA`, with numpy only."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Pixels: TypeAlias = NDArray[np.uint8]
Floats: TypeAlias = NDArray[np.float32]

COEFFICIENT_BITS = 11
"""Fraction bits of the weights of two neighbors."""
LEAST_PART = 1e-3
"""Smaller fractions of a pixel at the border of an area are ignored."""


def resize_linear(pixels: Pixels, rows: int, columns: int) -> Pixels:
    """Resize `[h, w, c]` to `[rows, columns, c]` from two neighbors per axis in fixed point; halving both sides gives
    the mean.
    """
    height, width = pixels.shape[:2]
    if (height, width) == (2 * rows, 2 * columns):
        return _mean_of_blocks(pixels, 2, 2)
    down, across = (_centers(old, new) for old, new in ((height, rows), (width, columns)))
    return _interpolated(pixels, down, across)


def resize_area(pixels: Pixels, rows: int, columns: int) -> Pixels:
    """Resize `[h, w, c]` to `[rows, columns, c]` by area means, or from two neighbors if a side grows."""
    height, width = pixels.shape[:2]
    if rows > height or columns > width:
        down, across = (_edges(old, new) for old, new in ((height, rows), (width, columns)))
        return _interpolated(pixels, down, across)
    if height % rows == 0 and width % columns == 0:
        return _mean_of_blocks(pixels, height // rows, width // columns)
    narrow = np.empty((height, columns, pixels.shape[2]), np.float32)
    for column, (first, weights) in enumerate(_areas(width, columns)):
        narrow[:, column] = _weighted(pixels[:, first : first + weights.size].astype(np.float32), weights, 1)
    small = np.empty((rows, columns, pixels.shape[2]), np.float32)
    for row, (first, weights) in enumerate(_areas(height, rows)):
        small[row] = _weighted(narrow[first : first + weights.size], weights, 0)
    return _as_bytes(small)


def _mean_of_blocks(pixels: Pixels, down: int, across: int) -> Pixels:
    height, width, channels = pixels.shape
    blocks = pixels.reshape(height // down, down, width // across, across, channels)
    sums = blocks.sum((1, 3), dtype=np.int32)
    if (down, across) == (2, 2):
        return ((sums + 2) >> 2).astype(np.uint8)
    return _as_bytes(sums.astype(np.float32) * (np.float32(1) / np.float32(down * across)))


def _centers(old: int, new: int) -> tuple[NDArray[np.intp], Floats]:
    """Return, per new position, the first of two old ones, and the weight of the second; pixel centers are aligned."""
    scale = 1.0 / (new / old)
    place = ((np.arange(new) + 0.5) * scale - 0.5).astype(np.float32)
    first = np.floor(place).astype(np.intp)
    return first, place - first.astype(np.float32)


def _edges(old: int, new: int) -> tuple[NDArray[np.intp], Floats]:
    """As `_centers`, with the fraction of a new pixel that the second old one covers."""
    factor = new / old
    first = np.floor(np.arange(new) * (1.0 / factor)).astype(np.intp)
    share = ((np.arange(new) + 1) - (first + 1) * factor).astype(np.float32)
    return first, np.where(share <= 0, np.float32(0), share - np.floor(share))


def _interpolated(
    pixels: Pixels, down: tuple[NDArray[np.intp], Floats], across: tuple[NDArray[np.intp], Floats]
) -> Pixels:
    height, width = pixels.shape[:2]
    first, share = across
    outside = (first < 0) | (first >= width - 1)
    before, after = _coefficients(np.where(outside, np.float32(0), share))
    left = np.clip(first, 0, width - 1)
    wide = pixels.astype(np.int32)
    lines = wide[:, left] * before[:, None] + wide[:, np.minimum(left + 1, width - 1)] * after[:, None]
    above, below = _coefficients(down[1])
    upper, lower = (lines[np.clip(down[0] + step, 0, height - 1)] >> 4 for step in (0, 1))
    sums = ((upper * above[:, None, None]) >> 16) + ((lower * below[:, None, None]) >> 16)
    return ((sums + 2) >> 2).clip(0, 255).astype(np.uint8)


def _coefficients(share: Floats) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    one = np.float32(1 << COEFFICIENT_BITS)
    return np.rint((np.float32(1) - share) * one).astype(np.int32), np.rint(share * one).astype(np.int32)


def _areas(old: int, new: int) -> list[tuple[int, Floats]]:
    """Return, per new pixel, the first old one that it covers, and the weight of each."""
    scale = 1.0 / (new / old)
    result: list[tuple[int, Floats]] = []
    for index in range(new):
        start = index * scale
        stop, size = start + scale, min(scale, old - start)
        end = min(int(np.floor(stop)), old - 1)
        begin = min(int(np.ceil(start)), end)
        weights = [1.0 / size] * (end - begin)
        first = begin
        if begin - start > LEAST_PART:
            weights.insert(0, (begin - start) / size)
            first -= 1
        if stop - end > LEAST_PART:
            weights.append(min(stop - end, 1.0, size) / size)
        result.append((first, np.array(weights, np.float32)))
    return result


def _weighted(part: Floats, weights: Floats, axis: int) -> Floats:
    """Return the weighted sum along an axis, in the order of positions."""
    places = np.moveaxis(part, axis, 0)
    result = places[0] * weights[0]
    for place, weight in zip(places[1:], weights[1:], strict=True):
        result += place * weight
    return result


def _as_bytes(values: Floats) -> Pixels:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
