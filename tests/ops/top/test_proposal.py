"""top.Proposal."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc_ops import top
from tpuc_testing import OpConformance

SCORES = np.zeros((2, 18, 2, 3), np.float32)
OFFSETS = np.zeros((2, 36, 2, 3), np.float32)
# Anchor 3 has ratio 1 and scale 8: 128 pixels around 7.5. It is likely in two neighboring cells, which overlap.
SCORES[0, 9 + 3, 0, 1] = 0.9
SCORES[0, 9 + 3, 0, 2] = 0.95
# Anchor 0 has ratio 1/2 and scale 8: 23 by 12 times 8. Half as wide, and moved to the right by a fourth of its width.
SCORES[1, 9, 1, 0] = 0.8
OFFSETS[1, 0, 1, 0], OFFSETS[1, 2, 1, 0] = 0.25, np.log(0.5)
SCORES[1, 0, 0, 0] = 1.0  # a certain background


def by_hand(*_: NDArray[Any]) -> NDArray[Any]:
    rows = np.zeros((2, 1, 3, 5))
    middle = (7.5 + 32, 7.5)
    rows[0, 0, 0] = [0, max(middle[0] - 64, 0), max(middle[1] - 64, 0), middle[0] + 64, middle[1] + 64]
    center = (7.5 + 0.25 * 184, 7.5 + 16)
    rows[1, 0, 0] = [1, center[0] - 46, max(center[1] - 48, 0), center[0] + 46, center[1] + 48]
    return rows


class TestProposal(OpConformance):
    op = top.Proposal(
        net_input_h=320,
        net_input_w=480,
        feat_stride=16,
        anchor_base_size=16,
        rpn_obj_threshold=0.7,
        rpn_nms_threshold=0.5,
        rpn_nms_post_top_n=3,
    )
    reference = by_hand
    samples = ([SCORES, OFFSETS],)
    flops = (4 * 2 * 36 * 2 * 3,)
