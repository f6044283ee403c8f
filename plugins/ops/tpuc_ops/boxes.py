"""Boxes (left, top, right, bottom): decoding, overlap, suppression."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tpuc_ops.arrays import Array

CODES = ("CORNER", "CENTER_SIZE", "CORNER_SIZE")


def decoded(offsets: Array, priors: Array, variances: Array | None, code: str) -> Array:
    """Boxes `[p, k, 4]` from `offsets` of that shape, `priors: [p, 4]`, and variances as their units."""
    if variances is not None:
        offsets = offsets * variances[:, None]
    low, high = priors[:, None, :2], priors[:, None, 2:]
    size = high - low
    if code == "CORNER":
        return priors[:, None] + offsets
    if code == "CORNER_SIZE":
        return priors[:, None] + offsets * np.concatenate([size, size], -1)
    centre = offsets[..., :2] * size + (low + high) / 2
    half = np.exp(offsets[..., 2:]) * size / 2
    return np.concatenate([centre - half, centre + half], -1)


def overlaps(box: Array, others: Array) -> Array:
    """Intersection over union of one box with each of the others."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    common = (high - low).clip(0).prod(1)
    union = _areas(box[None]) + _areas(others) - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0)


def _areas(boxes: Array) -> Array:
    return (boxes[:, 2:] - boxes[:, :2]).clip(0).prod(1)


def suppressed(boxes: Array, scores: Array, least: float, overlap: float, count: int, eta: float = 1.0) -> Array:
    """Indices of the boxes that no better one covers, best first.

    Of those with a score above `least` the best `count` are looked at (all for -1); a box goes when it overlaps a kept
    one by more than `overlap`, a limit that shrinks by `eta` after every kept box while it is above a half.
    """
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > least]
    order = order if count < 0 else order[:count]
    kept: list[int] = []
    for index in order.tolist():
        if not kept or overlaps(boxes[index], boxes[kept]).max() <= overlap:
            kept.append(index)
            if eta < 1 and overlap > 0.5:
                overlap *= eta
    return np.array(kept, np.int64)


def pixel_anchors(base: float, ratios: Sequence[float], scales: Sequence[float]) -> Array:
    """Boxes `[ratios * scales, 4]` of whole pixels around the first `base` by `base` ones, the last pixel included."""
    middle, boxes = (base - 1) / 2, list[tuple[float, ...]]()
    for ratio in ratios:
        width = np.round(np.sqrt(base * base / ratio))
        height = np.round(width * ratio)
        boxes += [
            (middle - (w - 1) / 2, middle - (h - 1) / 2, middle + (w - 1) / 2, middle + (h - 1) / 2)
            for w, h in ((width * scale, height * scale) for scale in scales)
        ]
    return np.array(boxes, np.float32)


def centred_boxes(centres: Array, sizes: Array, offsets: Array) -> Array:
    """Boxes from centres moved by shares of the size, and sizes times exponentials; all `[..., 2]`, offsets 4."""
    middle = offsets[..., :2] * sizes + centres
    half = np.float32(0.5) * np.exp(offsets[..., 2:]) * sizes
    return np.concatenate([middle - half, middle + half], -1)
