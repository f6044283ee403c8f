"""top.TopK."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node, uniform


class TestTopK(OpConformance):
    op = top.TopK(axis=1, K=2)
    reference = onnx_node("TopK", inputs=(0, np.array([2])), outputs=2, axis=1)
    samples = [uniform(2, 5, 3)], [f32([[1, 3, 3, 2]])]
    flops = (2 * 5 * 3, 4)


class TestSmallest(OpConformance):
    op = top.TopK(axis=-1, K=3, largest=False)
    reference = onnx_node("TopK", inputs=(0, np.array([3])), outputs=2, axis=-1, largest=0)
    samples = ([uniform(2, 5)],)
    flops = (2 * 5,)


def test_more_than_there_are() -> None:
    with pytest.raises(ValueError, match=r"K must be in 1..4, the extent of axis 0, this one is 5"):
        top.TopK(axis=0, K=5).infer((TensorType((4,), F32),))
