"""Suppression of boxes: as many at once as meet the kept ones, and what each by itself would give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc_ops.boxes import BLOCK, overlaps, suppressed

from tests.families import each

Array = NDArray[Any]


def shared(one: list[float], other: list[float]) -> float:
    """Intersection over union, number by number."""
    width = max(min(one[2], other[2]) - max(one[0], other[0]), 0.0)
    height = max(min(one[3], other[3]) - max(one[1], other[1]), 0.0)
    areas = [max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0) for box in (one, other)]
    union = sum(areas) - width * height
    return width * height / union if union > 0 else 0.0


def one_by_one(boxes: Array, scores: Array, least: float, overlap: float, count: int, eta: float) -> list[int]:
    rows = boxes.tolist()
    order = sorted((place for place, score in enumerate(scores) if score > least), key=lambda place: -scores[place])
    kept: list[int] = []
    for place in order if count < 0 else order[:count]:
        if all(shared(rows[place], rows[other]) <= overlap for other in kept):
            kept.append(place)
            if eta < 1 and overlap > 0.5:
                overlap *= eta
    return kept


@each("count", [0, 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
@each(("overlap", "most", "eta"), [(0.4, -1, 1.0), (0.9, -1, 0.97), (0.6, BLOCK + 7, 0.9)])
@each("side", [0.05, 0.4])
def test_boxes_are_suppressed_as_one_by_one(count: int, overlap: float, most: int, eta: float, side: float) -> None:
    random = np.random.default_rng(count)
    low = random.uniform(0, 1, (count, 2))
    boxes = np.concatenate([low, low + random.uniform(-0.1 * side, side, (count, 2))], 1)
    boxes[1::7] = boxes[::7][: len(boxes[1::7])]  # some are equal
    scores = random.uniform(0, 1, count)
    found = suppressed(boxes, scores, 0.05, overlap, most, eta)
    assert found.tolist() == one_by_one(boxes, scores, 0.05, overlap, most, eta)


def test_overlaps_are_those_of_each_with_each() -> None:
    random = np.random.default_rng(3)
    low = random.uniform(0, 1, (9, 2))
    boxes = np.concatenate([low, low + random.uniform(-0.1, 0.6, (9, 2))], 1)
    expected = [[shared(one, other) for other in boxes.tolist()] for one in boxes[:4].tolist()]
    assert overlaps(boxes[:4], boxes) == pytest.approx(np.array(expected))
