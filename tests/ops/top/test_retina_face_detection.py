"""top.RetinaFaceDetection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc_ops import top
from tpuc_testing import OpConformance

MAPS = [np.zeros((1, channels, 8 // level, 8 // level), np.float32) for level in (4, 2, 1) for channels in (4, 8, 20)]
# Stride 8, scale 1 (its second anchor): 18 pixels to scale by around 8.5. Row 1, column 2, half as high, moved right.
MAPS[6][0, 3, 1, 2] = 0.9
MAPS[7][0, 4:, 1, 2] = [0.5, 0, 0, np.log(0.5)]
MAPS[8][0, 10:, 1, 2] = [0.5, 0, *(0,) * 6, 0, 1]
# Stride 8 again, one row below at the same place: covered. Stride 16, scale 8, elsewhere and better.
MAPS[6][0, 3, 2, 2] = 0.85
MAPS[7][0, 4:, 2, 2] = [0.5, -8 / 18, 0, np.log(0.5)]
MAPS[3][0, 2, 3, 0] = 0.95


def by_hand(*_: NDArray[Any]) -> NDArray[Any]:
    rows = np.zeros((1, 1, 3, 15))
    center, half = (8.5, 8.5 + 48), (17 * 8 + 1 - 1) / 2
    rows[0, 0, 0, :5] = [center[0] - half, center[1] - half, center[0] + half, center[1] + half, 0.95]
    rows[0, 0, 0, 5:] = center * 5
    x, y = 8.5 + 16, 8.5 + 8
    rows[0, 0, 1, :5] = [x + 9 - 8.5, y - 4, x + 9 + 8.5, y + 4, 0.9]
    rows[0, 0, 1, 5:] = [x + 9, y, *(x, y) * 3, x, y + 18]
    return rows


class TestRetinaFaceDetection(OpConformance):
    op = top.RetinaFaceDetection(nms_threshold=0.4, confidence_threshold=0.8, keep_topk=3)
    reference = by_hand
    samples = (MAPS,)
    flops = (4 * 32 * (4 + 16 + 64),)
