"""An image and regions of it, whose maxima no chip computes."""

from __future__ import annotations

import numpy as np

ROI_POOLING = "roi_pooling_param { pooled_h: 2 pooled_w: 2 spatial_scale: 1 }"
REGIONS = {
    "x": np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8),
    "r": np.array([[0, 0, 0, 7, 7], [0, 4, 2, 7, 5]], np.float32),
}
