"""Rows of DetectionOutput as both vendor runtimes write them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from tpuc.api import HostArgument

DECODING_OPERATIONS = 20
"""Of one box: four products, two exponentials, sums, and limits."""
OVERLAP_OPERATIONS = 15
"""Of one pair of boxes: extents of the intersection, areas, a quotient."""


def without_gaps(rows: NDArray[np.float32], filler: float) -> NDArray[np.float32]:
    """Rows `[images, 1, k, 7]` of TOP, with the detections first: image by image, class by class, best first.

    The others are `filler`. If no image has any, rows (image, -1, ...) come first, one per image.
    """
    images = len(rows)
    every = rows.reshape(-1, rows.shape[-1])
    found = every[every.any(1)]
    result = np.full_like(every, filler)
    result[: len(found)] = found[np.lexsort((found[:, 1], found[:, 0]))]
    if not len(found):
        result[:images] = -1
        result[:images, 0] = np.arange(images)
    return result.reshape(rows.shape)


def sorting_operations(count: int) -> int:
    """Comparisons that sort so many values."""
    return count * max(math.ceil(math.log2(max(count, 1))), 1)


def detection_operations(inputs: Sequence[int], arguments: Mapping[str, HostArgument]) -> int:
    """Operations of DetectionOutput, whose inputs are locations, scores and priors, for one image where as many boxes
    as `keep_top_k` pass the threshold: thresholds, decoding, sorting, and overlaps of every pair of those boxes.
    """
    boxes, scores = inputs[0] // 4, inputs[1]
    kept = min(max(int(arguments.get("keep_top_k", 0)), 0), boxes)
    return scores + DECODING_OPERATIONS * boxes + sorting_operations(kept) + OVERLAP_OPERATIONS * kept * (kept - 1) // 2
