"""top.QuantizeLinear."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, f32, uniform


class TestPerTensor(OpConformance):
    op = top.QuantizeLinear(y_scale=(0.5,), y_zero_point=(3,))

    @staticmethod
    def reference(_x: Array) -> Array:
        return np.array([3, 3, 5, 5, 127, -128], np.float32)  # 0.25 / 0.5 is a tie, and so is 1.25 / 0.5

    samples = ([f32(0, 0.25, 1, 1.25, 100, -100)],)
    flops = 4


class TestPerAxis(OpConformance):
    op = top.QuantizeLinear(y_scale=(0.1, 0.2), y_zero_point=(0, 128), axis=1, to="UINT8")

    @staticmethod
    def reference(x: Array) -> Array:
        scale, zero = np.float32([[[0.1]], [[0.2]]]), np.float32([[[0]], [[128]]])
        return np.clip(np.rint(x / scale) + zero, 0, 255)

    samples = ([uniform(2, 2, 3, 4, low=-9, high=9)],)
    flops = 4


def test_scales_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="2 scales do not fit axis 1 of extent 3"):
        top.QuantizeLinear(y_scale=(0.1, 0.2), y_zero_point=(0, 0)).infer((TensorType((2, 3), F32),))
