"""Boxes (left, top, right, bottom): decoding, overlap, and suppression."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tpuc_ops import elementary
from tpuc_ops.arrays import Array

CODES = ("CORNER", "CENTER_SIZE", "CORNER_SIZE")
BLOCK = 64
"""Number of boxes compared with the kept ones at a time."""


def decoded(offsets: Array, priors: Array, variances: Array | None, code: str) -> Array:
    """Decode boxes `[p, k, 4]` from `offsets` of that shape and `priors: [p, 4]`; `variances` scale the offsets."""
    if variances is not None:
        offsets = offsets * variances[:, None]
    low, high = priors[:, None, :2], priors[:, None, 2:]
    size = high - low
    if code == "CORNER":
        return priors[:, None] + offsets
    if code == "CORNER_SIZE":
        return priors[:, None] + offsets * np.concatenate([size, size], -1)
    center = offsets[..., :2] * size + (low + high) / 2
    half = elementary.exp(offsets[..., 2:]) * size / 2
    return np.concatenate([center - half, center + half], -1)


def overlaps(boxes: Array, others: Array) -> Array:
    """Return the intersection over union of boxes `[b, 4]` with boxes `[n, 4]`, pairwise: `[b, n]`."""
    low, high = (
        edge(boxes[:, None, half], others[None, :, half])
        for edge, half in ((np.maximum, slice(0, 2)), (np.minimum, slice(2, 4)))
    )
    common = _areas(low, high)
    union = _areas(boxes[:, :2], boxes[:, 2:])[:, None] + _areas(others[:, :2], others[:, 2:]) - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0)


def _areas(low: Array, high: Array) -> Array:
    sides = np.maximum(high - low, 0)
    return sides[..., 0] * sides[..., 1]


def suppressed(boxes: Array, scores: Array, least: float, overlap: float, count: int, eta: float = 1.0) -> Array:
    """Non-maximum suppression: return the indices of the kept boxes, best first.

    Only the best `count` boxes with a score above `least` take part (all for -1). A box is dropped if it overlaps a
    kept one by more than `overlap`; while that limit is above one half, it is multiplied by `eta` after every kept box.
    """
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > least]
    order = order if count < 0 else order[:count]
    kept: list[int] = []
    for start in range(0, len(order), BLOCK):
        block = order[start : start + BLOCK]
        most = overlaps(boxes[block], boxes[kept]).max(1, initial=-np.inf)  # with a kept one
        own = overlaps(boxes[block], boxes[block])
        for place, index in enumerate(block.tolist()):
            if most[place] <= overlap:
                kept.append(index)
                np.maximum(most, own[place], out=most)
                if eta < 1 and overlap > 0.5:
                    overlap *= eta
    return np.array(kept, np.int64)


def pixel_anchors(base: float, ratios: Sequence[float], scales: Sequence[float]) -> Array:
    """Return anchor boxes `[ratios * scales, 4]` around the first `base` by `base` pixels, the last pixel included."""
    sizes: list[tuple[float, float]] = []
    for ratio in ratios:
        width = float(round(math.sqrt(base * base / ratio)))
        height = float(round(width * ratio))
        sizes += [(width * scale, height * scale) for scale in scales]
    half = (np.array(sizes, np.float32) - 1) / 2
    middle = np.float32((base - 1) / 2)
    return np.concatenate([middle - half, middle + half], 1)


def centered_boxes(centers: Array, sizes: Array, offsets: Array) -> Array:
    """Decode boxes from offsets `[..., 4]`: centers move by a fraction of the size, and sizes are scaled by
    exponentials. `centers` and `sizes`: `[..., 2]`.
    """
    middle = offsets[..., :2] * sizes + centers
    half = np.float32(0.5) * elementary.exp(offsets[..., 2:]) * sizes
    return np.concatenate([middle - half, middle + half], -1)


def duelled(boxes: Array, scores: Array, overlap: float, margin: float = 0.0) -> Array:
    """Return the indices of the boxes that win against all later ones, in order.

    Each remaining box is compared with those after it: of two that overlap by more than `overlap`, the worse one is
    dropped, and the first of equal ones. `margin` is added to the extents in areas, but not in intersections.
    """
    left = np.ones(len(boxes), bool)
    areas = (boxes[:, 2:] - boxes[:, :2] + np.float32(margin)).prod(1)
    for index in range(len(boxes)):
        if not left[index]:
            continue
        rest = np.flatnonzero(left[index + 1 :]) + index + 1
        low, high = np.maximum(boxes[index, :2], boxes[rest, :2]), np.minimum(boxes[index, 2:], boxes[rest, 2:])
        common = (high - low).clip(0).prod(1)
        union = areas[index] + areas[rest] - common
        met = rest[common > overlap * union]
        lost = np.flatnonzero(scores[met] >= scores[index])
        left[met if not len(lost) else met[: lost[0]]] = False
        left[index] = not len(lost)
    return np.flatnonzero(left)


def cells(rows: int, columns: int) -> Array:
    """Return column and row of every cell of a grid, `[rows, columns, 2]`."""
    return np.indices((rows, columns), np.float32)[::-1].transpose(1, 2, 0)
