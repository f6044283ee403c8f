"""top.Squeeze."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestSqueeze(OpConformance):
    op = top.Squeeze(axes=(0, -1))
    reference = onnx_node("Squeeze", inputs=(0, np.array([0, -1])))
    samples = ([uniform(1, 3, 1, 1)],)
    flops = 0


class TestSqueezeOfAll(OpConformance):
    op = top.Squeeze()
    reference = onnx_node("Squeeze")
    samples = ([uniform(1, 3, 1, 2)],)
    flops = 0


def test_other_extents_cannot_go_away() -> None:
    with pytest.raises(ValueError, match="dimension 1 of 5x20 has extent 20, only extent 1 can be removed"):
        top.Squeeze(axes=(-1,)).infer((TensorType((5, 20), F32),))
