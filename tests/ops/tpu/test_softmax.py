"""tpu.Softmax."""

from __future__ import annotations

import math

import numpy as np
from tpuc.api import F32, Node, TensorType
from tpuc_ops import tpu
from tpuc_testing import OpConformance, integers, onnx_node, quantized_element, uniform

from tests.ops.tpu import plain


class TestSoftmax(OpConformance):
    op = tpu.Softmax(axis=1)
    reference = onnx_node("Softmax", axis=1, inputs=(0,))
    samples = ([uniform(2, 10, low=-9, high=9), None, None, None, None, None],)
    flops = 5


def test_integers_take_their_exponentials_from_the_table() -> None:
    scale = 0.05
    x = integers(2, 6)
    table = np.array([math.exp(-i * scale) for i in range(256)], np.float32).reshape(1, 1, 1, 256)
    types = (TensorType(x.shape, quantized_element("int8", scale)), TensorType(table.shape, F32))
    result = TensorType(x.shape, quantized_element("uint8", 1 / 255))
    op = tpu.Softmax(axis=1)
    (y,) = op.evaluate(Node(op, types, (result,)), [x, table])
    for row, found in zip(x.tolist(), y.tolist(), strict=True):
        exponentials = [math.exp(-(max(row) - q) * scale) for q in row]
        expected = [plain.half_away(plain.Fraction(e / sum(exponentials) * 255)) for e in exponentials]
        assert found == expected


def test_logarithms_of_integers_are_floats_times_the_factor() -> None:
    scale, factor = 0.05, 20.0
    x = integers(2, 6)
    table = np.array([math.exp(-i * scale) for i in range(256)], np.float32).reshape(1, 1, 1, 256)
    types = (TensorType(x.shape, quantized_element("int8", scale)), TensorType(table.shape, F32))
    op = tpu.Softmax(axis=1, log=True, factor=factor)
    (y,) = op.evaluate(Node(op, types, (TensorType(x.shape, F32),)), [x, table])
    for row, found in zip(x.tolist(), y.tolist(), strict=True):
        total = math.log(sum(math.exp(q * scale) for q in row))
        np.testing.assert_allclose(found, [factor * (q * scale - total) for q in row], rtol=1e-5, atol=1e-4)
