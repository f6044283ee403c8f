"""Rotated boxes `[n, 5]`: center, size, and angle in radians, positive from the x axis to the y axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpuc_eval.postprocess.boxes import Floats

_LEAST = 1e-7
"""Lower bound of distances and determinants, for boxes without extent."""
_FARTHEST = 100.0


def corners_of(boxes: Floats) -> Floats:
    """Return the corners `[n, 4, 2]` of each box."""
    cos, sin = np.cos(boxes[:, 4]), np.sin(boxes[:, 4])
    along = np.stack([cos, sin], axis=-1) * boxes[:, 2:3] / 2
    across = np.stack([-sin, cos], axis=-1) * boxes[:, 3:4] / 2
    offsets = np.stack([-along - across, along - across, along + across, across - along], axis=1)
    return boxes[:, None, :2] + offsets


def spreads(boxes: Floats) -> Floats:
    """Return the covariances `[n, 2, 2]` of the uniform distributions over the boxes."""
    turned = np.stack(
        [
            np.stack([np.cos(boxes[:, 4]), -np.sin(boxes[:, 4])], axis=-1),
            np.stack([np.sin(boxes[:, 4]), np.cos(boxes[:, 4])], axis=-1),
        ],
        axis=1,
    )
    return (turned * (boxes[:, None, 2:4] ** 2 / 12)) @ turned.transpose(0, 2, 1)


def likenesses(box: Floats, others: Floats) -> Floats:
    """Return the probabilistic IoU of a box and others (arXiv 2106.06072): 1 minus the Hellinger distance of the normal
    distributions with their centers and covariances.
    """
    own, theirs = spreads(box[None]), spreads(others)
    both = own + theirs
    area = np.linalg.det(both)
    apart = others[:, :2] - box[:2]
    (xx, xy), (_, yy) = both[:, 0].T, both[:, 1].T
    squares = yy * apart[:, 0] ** 2 - 2 * xy * apart[:, 0] * apart[:, 1] + xx * apart[:, 1] ** 2
    single = np.sqrt(np.maximum(np.linalg.det(own) * np.linalg.det(theirs), 0.0))
    distance = squares / (area + _LEAST) / 4 + np.log(area / (4 * single + _LEAST) + _LEAST) / 2
    return 1.0 - np.sqrt(1.0 - np.exp(-np.clip(distance, _LEAST, _FARTHEST)) + _LEAST)


def suppress_rotated(boxes: Floats, scores: Floats, classes: NDArray[Any], iou: float, keep: int) -> NDArray[np.int64]:
    """Suppress boxes whose probabilistic IoU with a better one of their class is at least `iou`, whether that one is
    kept or not; return the kept boxes, best first, at most `keep`.
    """
    order = np.argsort(-scores, kind="stable")
    free = np.ones(len(order), np.bool_)
    for place, best in enumerate(order):
        rest = order[place + 1 :]
        rivals = rest[classes[rest] == classes[best]]
        free[rivals[likenesses(boxes[best], boxes[rivals]) >= iou]] = False
    return order[free[order]][:keep].astype(np.int64)
