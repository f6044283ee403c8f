"""top.Unsqueeze."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestUnsqueeze(OpConformance):
    op = top.Unsqueeze(axes=(0, -1, 2))
    reference = onnx_node("Unsqueeze", inputs=(0, np.array([0, -1, 2])))
    samples = ([uniform(3, 2)],)
    flops = 0


def test_a_dimension_named_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"axes \[0, -3\] name a dimension twice"):
        top.Unsqueeze(axes=(0, -3)).infer((TensorType((5,), F32),))
