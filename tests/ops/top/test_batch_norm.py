"""top.BatchNorm."""

from __future__ import annotations

import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform

X, MEAN, VARIANCE = uniform(2, 3, 4, 5), uniform(3), uniform(3, low=0.5, seed=1)


class TestBatchNorm(OpConformance):
    op = top.BatchNorm(epsilon=1e-3)
    reference = onnx_node("BatchNormalization", inputs=(0, 3, 4, 1, 2), epsilon=1e-3)
    samples = ([X, MEAN, VARIANCE, uniform(3, seed=2), uniform(3, seed=3)],)
    flops = 2


class TestBatchNormWithoutGammaAndBeta(OpConformance):
    op = top.BatchNorm(do_relu=True)

    @staticmethod
    def reference(x: Array, mean: Array, variance: Array, _gamma: Array, _beta: Array) -> Array:
        return ((x - mean[:, None, None]) / (variance[:, None, None] + 1e-5) ** 0.5).clip(0)

    samples = ([X, MEAN, VARIANCE, None, None],)
    flops = 2 + 1


def test_statistics_of_another_channel_count_are_refused() -> None:
    with pytest.raises(ValueError, match="mean 4 does not fit 3 channels"):
        top.BatchNorm().infer((TensorType((1, 3, 2, 2), F32), TensorType((4,), F32), TensorType((3,), F32)))
