"""Resize images."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tpuc_images.opencv import resize_area, resize_linear

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]


_OPENCV = {"area": resize_area, "linear": resize_linear}


def resize(pixels: Pixels, rows: int, columns: int, interpolation: str | None = None) -> Pixels:
    """Resize `[h, w, c]` to `[rows, columns, c]` by a filter of Pillow or OpenCV.

    Without a name: if no side grows, a new pixel is the mean over its area, including fractions of border pixels; else
    it is interpolated linearly between centers.
    """
    height, width, channels = pixels.shape
    if (height, width) == (rows, columns):
        return pixels
    if interpolation in _OPENCV:
        return _OPENCV[interpolation](pixels, rows, columns)
    if interpolation is None and rows <= height and columns <= width:
        return _shrink(pixels, rows, columns)
    image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    chosen = Image.Resampling[(interpolation or "bilinear").upper()]
    return np.asarray(image.resize((columns, rows), chosen), np.uint8).reshape(rows, columns, channels)


def _shrink(pixels: Pixels, rows: int, columns: int) -> Pixels:
    height, width, channels = pixels.shape
    down = np.empty((rows, width, channels), np.float32)
    for row, (first, weights) in enumerate(_areas(height, rows)):
        part = pixels[first : first + weights.size].astype(np.float32)
        down[row] = _weighted(part, weights, 0)
    across = np.empty((rows, columns, channels), np.float32)
    for column, (first, weights) in enumerate(_areas(width, columns)):
        across[:, column] = _weighted(down[:, first : first + weights.size], weights, 1)
    return np.clip(np.rint(across), 0, 255).astype(np.uint8)


def _weighted(part: Floats, weights: Floats, axis: int) -> Floats:
    """Return the weighted sum along an axis, in the same order on every processor."""
    places = np.moveaxis(part, axis, 0)
    result = places[0] * weights[0]
    for place, weight in zip(places[1:], weights[1:], strict=True):
        result += place * weight
    return result


def _areas(old: int, new: int) -> list[tuple[int, Floats]]:
    """Return, per new pixel, the first old one that it covers, and the share of each; shares add up to 1."""
    result: list[tuple[int, Floats]] = []
    for index in range(new):
        # positions in units of 1 / new of an old pixel, so that borders are exact
        start, stop = index * old, (index + 1) * old
        first, end = start // new, -(-stop // new)
        covered = [min(stop, (place + 1) * new) - max(start, place * new) for place in range(first, end)]
        result.append((first, (np.array(covered, np.float64) / old).astype(np.float32)))
    return result
