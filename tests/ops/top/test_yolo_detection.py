"""top.YoloDetection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc_ops import top
from tpuc_testing import OpConformance

SMALL = np.full((1, 2 * 7, 1, 1), -9, np.float32)
LARGE = np.full((1, 2 * 7, 2, 2), -9, np.float32)
# The second box of the small map: in the middle, twice as wide as its anchor, certainly class 1.
SMALL[0, 7:, 0, 0] = [0, 0, np.log(2), 0, 40, -40, 40]
# The first box of the large map's cell (row 0, column 1), class 0 with odds of 3 to 1.
LARGE[0, :7, 0, 1] = [0, 0, 0, 0, 40, np.log(3), 0]
# Another one at the same place, less likely, which goes; and one of the other class, which stays.
LARGE[0, 7:, 0, 1] = [0, 0, np.log(0.8), 0, 40, np.log(2), 0]
LARGE[0, :7, 1, 1] = [0, 0, 0, 0, 40, 0, np.log(4)]


def by_hand(*_: NDArray[Any]) -> NDArray[Any]:
    rows = np.zeros((1, 1, 4, 6))
    rows[0, 0, 0] = [0.75, 0.25, 10 / 100, 20 / 50, 0, 0.75]
    rows[0, 0, 1] = [0.75, 0.75, 10 / 100, 20 / 50, 1, 0.8]
    rows[0, 0, 2] = [0.5, 0.5, 2 * 40 / 100, 30 / 50, 1, 1]
    return rows


class TestYoloDetection(OpConformance):
    op = top.YoloDetection(
        net_input_h=50,
        net_input_w=100,
        nms_threshold=0.5,
        obj_threshold=0.5,
        keep_topk=4,
        anchors=(10, 20, 10, 20, 5, 5, 40, 30),
        version="yolov3",
        class_num=2,
        num_boxes=2,
    )
    reference = by_hand
    samples = ([SMALL, LARGE],)
    flops = (4 * 14 * (1 + 4),)
