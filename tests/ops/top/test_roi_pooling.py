"""top.ROIPooling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc_ops import top
from tpuc_testing import OpConformance, uniform


def halves(x: NDArray[Any], regions: NDArray[Any]) -> NDArray[Any]:
    """The maxima over both halves of rows and columns of each region, whose extents are even here."""
    results: list[Any] = []
    for image, left, upper, right, bottom in regions.astype(int):
        part = x[image, :, upper : bottom + 1, left : right + 1]
        rows, columns = part.shape[1] // 2, part.shape[2] // 2
        parts = part.reshape(part.shape[0], 2, rows, 2, columns)
        results.append(parts.max((2, 4)))
    return np.stack(results)


class TestROIPooling(OpConformance):
    op = top.ROIPooling(pooled_h=2, pooled_w=2, spatial_scale=1.0)
    reference = halves
    samples = ([uniform(2, 3, 8, 8), np.array([[0, 0, 0, 7, 7], [1, 2, 4, 5, 7], [1, 0, 0, 1, 1]], np.float32)],)
    flops = 1
