"""top.MatMul."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, Node, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform

from tests.families import each


class TestMatMul(OpConformance):
    op = top.MatMul()
    reference = onnx_node("MatMul", inputs=(0, 1))
    samples = (
        [uniform(3, 4), uniform(4, 5), None],
        [uniform(2, 1, 3, 4), uniform(6, 4, 5), None],
        [uniform(4), uniform(2, 4, 5), None],
    )
    flops = 2 * 4


class TestMatMulWithBias(OpConformance):
    op = top.MatMul(right_transpose=True, do_relu=True)

    @staticmethod
    def reference(x: Array, y: Array, b: Array) -> Array:
        return onnx_node("Gemm", transB=1)(x, y, b)[0].clip(0)

    samples = [uniform(3, 4), uniform(5, 4), uniform(5)], [uniform(3, 4), uniform(5, 4), uniform(1, 5)]
    flops = 2 * 4 + 1 + 1


class TestMatMulTransposed(OpConformance):
    op = top.MatMul(left_transpose=True, output_transpose=True)

    @staticmethod
    def reference(x: Array, y: Array) -> Array:
        return np.einsum("bki,bkj->bji", x, y)

    samples = ([uniform(2, 4, 3), uniform(2, 4, 5)],)
    flops = 2 * 4


def types(*shapes: tuple[int, ...]) -> tuple[TensorType, ...]:
    return tuple(TensorType(shape, F32) for shape in shapes)


def test_flops_count_products_sums_bias_and_relu() -> None:
    op, operands = top.MatMul(do_relu=True), types((7, 3, 4), (4, 5), (5,))
    assert op.flops(Node(op, operands, op.infer(operands))) == 7 * 3 * 5 * (2 * 4 + 1 + 1)


@each(
    ("shapes", "sentence"),
    [
        (((3, 4), (5, 4)), "3x4 times 5x4 has inner extents 4 and 5"),
        (((3, 4), (4, 5), (3,)), "do not broadcast"),
        (((3, 4), (4, 5), (2, 3, 5)), "bias 2x3x5 does not fit a product of 3x5"),
    ],
)
def test_operands_that_do_not_fit_are_refused(shapes: tuple[tuple[int, ...], ...], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        top.MatMul().infer(types(*shapes))
