"""top.Flatten."""

from __future__ import annotations

import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform


class TestFlatten(OpConformance):
    op = top.Flatten(start_dim=1)
    reference = onnx_node("Flatten", axis=1)
    samples = [uniform(2, 3, 4, 5)], [uniform(2, 3)]
    flops = 0


class TestFlattenOfTheMiddle(OpConformance):
    op = top.Flatten(start_dim=-3, end_dim=2)

    @staticmethod
    def reference(x: Array) -> Array:
        return x.reshape(2, 12, 5)

    samples = ([uniform(2, 3, 4, 5)],)
    flops = 0


def test_reversed_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match="start_dim 2 is after end_dim 1"):
        top.Flatten(start_dim=2, end_dim=1).infer((TensorType((2, 3, 4), F32),))
