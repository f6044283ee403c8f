"""top.Upsample."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node, uniform


class TestUpsample(OpConformance):
    op = top.Upsample(scale_h=2, scale_w=3)
    reference = onnx_node(
        "Resize",
        inputs=(0, np.zeros(0, np.float32), f32(1, 1, 2, 3)),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    samples = ([uniform(1, 2, 4, 4)],)
    flops = 0
