"""top.Deconv."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform


class TestDeconv(OpConformance):
    op = top.Deconv(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), output_padding=(1, 1))

    @staticmethod
    def reference(x: Array, w: Array, b: Array) -> Array:
        node = onnx_node("ConvTranspose", strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
        return node(x, w.swapaxes(0, 1), b)[0]

    samples = ([uniform(2, 3, 5, 4), uniform(2, 3, 3, 3), uniform(2)],)
    flops = 2 * 3 * 9 + 1


class TestDeconvInGroups(OpConformance):
    op = top.Deconv(kernel_shape=(3, 2), strides=(1, 3), pads=(0, 1, 2, 0), dilations=(2, 1), group=2)

    @staticmethod
    def reference(x: Array, w: Array) -> Array:
        node = onnx_node("ConvTranspose", strides=[1, 3], pads=[0, 1, 2, 0], dilations=[2, 1])
        halves = [node(x[:, half], w[:, half].swapaxes(0, 1))[0] for half in (slice(0, 2), slice(2, 4))]
        return np.concatenate(halves, 1)

    samples = ([uniform(1, 4, 5, 4), uniform(3, 4, 3, 2)],)
    flops = 2 * 2 * 3 * 2


class TestDeconvOfRows(OpConformance):
    op = top.Deconv(kernel_shape=(4,), strides=(2,), pads=(1, 1), dilations=(1,))

    @staticmethod
    def reference(x: Array, w: Array) -> Array:
        return onnx_node("ConvTranspose", strides=[2], pads=[1, 1])(x, w.swapaxes(0, 1))[0]

    samples = ([uniform(1, 2, 5), uniform(3, 2, 4)],)
    flops = 2 * 2 * 4


def test_a_weight_in_another_order_is_refused() -> None:
    types = (TensorType((1, 3, 5, 5), F32), TensorType((3, 2, 3, 3), F32))
    with pytest.raises(ValueError, match="weight 3x2x3x3 does not fit 3 channels in group 1"):
        top.Deconv(kernel_shape=(3, 3)).infer(types)
