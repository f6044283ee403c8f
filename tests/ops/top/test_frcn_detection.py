"""top.FrcnDetection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc_ops import top
from tpuc_testing import OpConformance

# Two regions of 10 by 20 pixels that overlap, and one of its own.
REGIONS = np.array([[0, 0, 0, 9, 19], [0, 1, 0, 10, 19], [0, 50, 50, 59, 69]], np.float32)[None, None]
SCORES = np.array([[0.1, 0.8, 0.9], [0.1, 0.6, 0.1], [0.9, 0.7, 0.2]], np.float32)
OFFSETS = np.zeros((3, 3, 4), np.float32)
OFFSETS[2, 1] = [0.1, 0, 0, np.log(2)]


def by_hand(*_: NDArray[Any]) -> NDArray[Any]:
    """Boxes are as wide as their pixels. The first region's class 1 covers the second's, whose class 2 is unlikely."""
    rows = np.zeros((1, 1, 4, 6))
    rows[0, 0, 0] = [0, 0, 10, 20, 1, 0.8]
    rows[0, 0, 1] = [0, 0, 10, 20, 2, 0.9]
    rows[0, 0, 2] = [51, 40, 61, 80, 1, 0.7]
    return rows


class TestFrcnDetection(OpConformance):
    op = top.FrcnDetection(class_num=3, obj_threshold=0.5, nms_threshold=0.4, keep_topk=4)
    reference = by_hand
    samples = ([OFFSETS.reshape(3, 12), SCORES, REGIONS],)
    flops = (4 * 3 * 12,)
