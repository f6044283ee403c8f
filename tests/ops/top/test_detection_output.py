"""top.DetectionOutput."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc_ops import top
from tpuc_testing import OpConformance

BOXES = np.array([[0.1, 0.1, 0.3, 0.3], [0.12, 0.1, 0.32, 0.3], [0.6, 0.6, 0.8, 0.9]], np.float32)
PRIORS = np.stack([BOXES.reshape(-1), np.full(12, 0.5, np.float32)])[None]
SCORES = np.array([[0.2, 0.7, 0.1, 0.9, 0.6, 0.3], [0.9, 0.1, 0.8, 0.2, 0.3, 0.45]], np.float32)
OFFSETS = np.zeros((2, 12), np.float32)
OFFSETS[1, 8:] = 0.2


def by_hand(*_: NDArray[Any]) -> NDArray[Any]:
    """The second box covers the first; with a variance of a half, the last one moves by a tenth in the second image."""
    rows = np.zeros((2, 1, 2, 7))
    rows[0, 0, 0] = [0, 1, 0.9, *BOXES[1]]
    rows[1, 0, 0] = [1, 1, 0.45, *(BOXES[2] + 0.1)]
    return rows


class TestDetectionOutput(OpConformance):
    op = top.DetectionOutput(
        num_classes=2, nms_threshold=0.45, top_k=3, code_type="CORNER", keep_top_k=2, confidence_threshold=0.4
    )
    reference = by_hand
    samples = ([OFFSETS, SCORES, PRIORS],)
    flops = (20 * 2 * 12,)
