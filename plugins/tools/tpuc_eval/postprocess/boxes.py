"""Boxes as arrays `[n, 4]` of x1, y1, x2, y2: overlap, suppression, and mapping back to the image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tpuc.api import UsageError
from tpuc_images.placing import Placement

from tpuc_eval.protocols import Sample

Floats: TypeAlias = NDArray[np.float64]
Suppression: TypeAlias = "Callable[[Floats, Floats, NDArray[Any], float, int], NDArray[np.int64]]"
"""A function like `suppress`, for some kind of boxes."""


def sigmoid(x: NDArray[Any]) -> Floats:
    """Sigmoid without overflow for large magnitudes."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def softmax(x: NDArray[Any], axis: int = -1) -> Floats:
    """Softmax along an axis."""
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def around(center: NDArray[Any], size: NDArray[Any]) -> Floats:
    """Return boxes with these centers (x, y) and sizes (width, height), `[..., 2]` each."""
    return np.concatenate([center - size / 2, center + size / 2], axis=-1)


def overlaps(box: NDArray[Any], others: NDArray[Any]) -> Floats:
    """Return the intersection over union of one box with each of the others."""
    size = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.maximum(size, 0.0).prod(axis=1)
    union = _area(box[None])[0] + _area(others) - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def suppress(boxes: Floats, scores: Floats, classes: NDArray[Any], iou: float, keep: int) -> NDArray[np.int64]:
    """Non-maximum suppression per class: return the kept boxes, best first, at most `keep`; `iou` is the maximum
    overlap.
    """
    order = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    while order.size and len(kept) < keep:
        best, order = int(order[0]), order[1:]
        kept.append(best)
        rivals = (classes[order] == classes[best]) & (overlaps(boxes[best], boxes[order]) > iou)
        order = order[~rivals]
    return np.array(kept, np.int64)


@dataclass(frozen=True)
class Choice:
    """The `rows` of the candidates that are objects, with their classes and scores; best first."""

    rows: NDArray[np.int64]
    classes: NDArray[np.int64]
    scores: Floats


def choose(
    boxes: Floats,
    scores: Floats,
    *,
    score: float,
    iou: float,
    keep: int,
    every_class: bool,
    suppressed: Suppression = suppress,
) -> Choice:
    """Select detections among `boxes`, in the form that `suppressed` takes, with `scores` `[n, classes]`.

    A box counts for its best class, or with `every_class` for each class with more than `score`. At most `keep` remain.
    """
    if every_class:
        rows, classes = np.nonzero(scores > score)
    else:
        classes = scores.argmax(axis=1)
        rows = np.nonzero(scores[np.arange(len(scores)), classes] > score)[0]
        classes = classes[rows]
    chosen = scores[rows, classes]
    kept = suppressed(boxes[rows].astype(np.float64), chosen, classes, iou, keep)
    return Choice(rows[kept], classes[kept].astype(np.int64), chosen[kept])


def placement_of(name: str, sample: Sample) -> Placement:
    """Return where the image lies in the input; raises UsageError for data without images."""
    if sample.placement is None:
        raise UsageError(
            f"post-processing '{name}' returns boxes in images, but the data has no images; use data of type coco."
        )
    return sample.placement


def _area(boxes: NDArray[Any]) -> Floats:
    return np.maximum(boxes[:, 2:] - boxes[:, :2], 0.0).prod(axis=1)
