"""Rows of DetectionOutput as both vendor runtimes write them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


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
