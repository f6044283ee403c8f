"""top.Permute."""

from __future__ import annotations

import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestPermute(OpConformance):
    op = top.Permute(order=(0, 1, 3, 4, 2))
    reference = onnx_node("Transpose", perm=[0, 1, 3, 4, 2])
    samples = ([uniform(2, 3, 5, 4, 1)],)
    flops = 0


def test_orders_that_are_no_permutation_are_refused() -> None:
    with pytest.raises(ValueError, match=r"order \[0, 0\] is not a permutation of the 2 dimensions of 2x3"):
        top.Permute(order=(0, 0)).infer((TensorType((2, 3), F32),))
