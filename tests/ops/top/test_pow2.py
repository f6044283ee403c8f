"""top.Pow2."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestPow2(OpConformance):
    op = top.Pow2(const_val=3.0)
    reference = onnx_node("Pow", inputs=(np.array(3, np.float32), 0))
    samples = ([uniform(2, 3)],)
    flops = 4
