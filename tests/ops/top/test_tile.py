"""top.Tile."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestTile(OpConformance):
    op = top.Tile(tile=(1, 3, 2))
    reference = onnx_node("Tile", inputs=(0, np.array([1, 3, 2])))
    samples = ([uniform(2, 1, 4)],)
    flops = 0
