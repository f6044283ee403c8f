"""top.LayerNorm."""

from __future__ import annotations

import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform


class TestLayerNorm(OpConformance):
    op = top.LayerNorm(axis=-2, eps=1e-3)
    reference = onnx_node("LayerNormalization", axis=-2, epsilon=1e-3)
    samples = ([uniform(2, 3, 4, 5), uniform(4, 5), uniform(4, 5, seed=1)],)
    flops = 7


class TestLayerNormWithoutWeights(OpConformance):
    op = top.LayerNorm()

    @staticmethod
    def reference(x: Array, *_absent: Array) -> Array:
        return (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True) + 1e-5) ** 0.5

    samples = ([uniform(2, 3, 4), None, None],)
    flops = 7


def test_weights_of_another_extent_are_refused() -> None:
    with pytest.raises(ValueError, match="weight 3 does not fit 4"):
        top.LayerNorm().infer((TensorType((2, 4), F32), TensorType((3,), F32)))
