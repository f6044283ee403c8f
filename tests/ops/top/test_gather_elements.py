"""top.GatherElements."""

from __future__ import annotations

import numpy as np
from tpuc.testing import OpConformance, onnx_node, uniform
from tpuc_ops.top.gather_elements import GatherElements


class TestGatherElements(OpConformance):
    op = GatherElements(axis=1)
    reference = onnx_node("GatherElements", axis=1)
    samples = ([uniform(2, 5, 3), np.array([[[0, 4, 1], [-1, 2, 3]], [[1, 1, 0], [2, -5, 4]]])],)
