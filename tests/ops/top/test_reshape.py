"""top.Reshape."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestReshape(OpConformance):
    op = top.Reshape(shape=(0, -1, 2))
    reference = onnx_node("Reshape", inputs=(0, np.array([0, -1, 2])))
    samples = [uniform(2, 3, 4)], [uniform(1, 6)]
    flops = 0


def test_other_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2x3 has 6 elements and cannot become \[4, -1\]"):
        top.Reshape(shape=(4, -1)).infer((TensorType((2, 3), F32),))


def test_empty_shape_leaves_the_choice_to_the_declared_type() -> None:
    assert top.Reshape().infer((TensorType((2, 3), F32),)) is None
