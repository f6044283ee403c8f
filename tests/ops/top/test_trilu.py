"""top.Trilu."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestUpper(OpConformance):
    op = top.Trilu(upper=1, diagonal=1)
    reference = onnx_node("Trilu", inputs=(0, np.array(1)), upper=1)
    samples = [uniform(2, 4, 5)], [uniform(3, 3)]
    flops = 0


class TestLower(OpConformance):
    op = top.Trilu(upper=0, diagonal=-1)
    reference = onnx_node("Trilu", inputs=(0, np.array(-1)), upper=0)
    samples = ([uniform(2, 4, 5)],)
    flops = 0
