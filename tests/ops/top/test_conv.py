"""top.Conv."""

from __future__ import annotations

import pytest
from tpuc.api import F32, Node, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform

from tests.families import each


class TestConv(OpConformance):
    op = top.Conv(kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    reference = onnx_node("Conv", pads=[1, 1, 1, 1])
    samples = (
        [uniform(2, 3, 8, 7), uniform(4, 3, 3, 3), uniform(4)],
        [uniform(1, 2, 1, 1), uniform(1, 2, 3, 3), None],
        [uniform(1, 2, 5, 5), uniform(1, 2, 3, 3)],
    )
    flops = (2 * 4 * 8 * 7 * (2 * 3 * 9 + 1), 2 * 2 * 9, 5 * 5 * 2 * 2 * 9)


class TestConvWithEverything(OpConformance):
    op = top.Conv(kernel_shape=(3, 2), strides=(2, 1), pads=(0, 1, 3, 2), dilations=(1, 3), group=2)
    reference = onnx_node("Conv", strides=[2, 1], pads=[0, 1, 3, 2], dilations=[1, 3], group=2)
    samples = ([uniform(2, 6, 9, 8), uniform(4, 3, 3, 2), uniform(4)],)
    flops = 2 * 3 * 3 * 2 + 1


class TestConvDepthwise(OpConformance):
    op = top.Conv(kernel_shape=(3, 3), strides=(2, 2), pads=(0, 0, 1, 1), group=3)
    reference = onnx_node("Conv", strides=[2, 2], pads=[0, 0, 1, 1], group=3)
    samples = [uniform(2, 3, 8, 8), uniform(3, 1, 3, 3), uniform(3)], [uniform(1, 3, 8, 8), uniform(6, 1, 3, 3)]
    flops = (2 * 3 * 4 * 4 * (2 * 9 + 1), 6 * 4 * 4 * 2 * 9)


class TestConvOfRows(OpConformance):
    op = top.Conv(kernel_shape=(3,), strides=(2,), pads=(1, 0), dilations=(2,))
    reference = onnx_node("Conv", strides=[2], pads=[1, 0], dilations=[2])
    samples = ([uniform(2, 3, 12), uniform(4, 3, 3), uniform(4)],)
    flops = 2 * 3 * 3 + 1


class TestConvOfVolumes(OpConformance):
    op = top.Conv(
        kernel_shape=(2, 3, 2), strides=(2, 1, 3), pads=(1, 0, 1, 2, 1, 0), dilations=(2, 1, 1), group=2, do_relu=True
    )

    @staticmethod
    def reference(*operands: Array) -> Array:
        window = {"strides": [2, 1, 3], "pads": [1, 0, 1, 2, 1, 0], "dilations": [2, 1, 1]}
        return onnx_node("Conv", **window, group=2)(*operands)[0].clip(0)

    samples = (
        [uniform(2, 4, 5, 6, 7), uniform(6, 2, 2, 3, 2), uniform(6)],
        [uniform(1, 2, 4, 3, 5), uniform(4, 1, 2, 3, 2), None],
    )
    flops = (2 * 6 * 3 * 5 * 3 * (2 * 2 * 12 + 1 + 1), 4 * 3 * 2 * 2 * (2 * 12 + 1))


class TestConvInManyBlocks(OpConformance):
    op = top.Conv(kernel_shape=(5, 5), pads=(2, 2, 2, 2))
    reference = onnx_node("Conv", pads=[2, 2, 2, 2])
    samples = ([uniform(1, 64, 40, 40), uniform(2, 64, 5, 5)],)
    flops = 2 * 64 * 5 * 5
    atol = 1e-4  # 1600 products per sum, in another order


def types(*shapes: tuple[int, ...]) -> tuple[TensorType, ...]:
    return tuple(TensorType(shape, F32) for shape in shapes)


def test_flops_of_the_seeds_example() -> None:
    # The TpuLang example: its pad [0, 0, 1, 1] is top, bottom, left, right.
    op = top.Conv(kernel_shape=(7, 7), strides=(2, 2), pads=(0, 1, 0, 1))
    operands = types((1, 3, 173, 141), (64, 3, 7, 7), (64,))
    results = op.infer(operands)
    assert results[0].dims == (1, 64, 84, 69)
    assert op.flops(Node(op, operands, results)) == 109428480


def test_relu_limit_cuts_off() -> None:
    op = top.Conv(kernel_shape=(1, 1), do_relu=True, relu_limit=6.0)
    operands = types((1, 1, 1, 3), (1, 1, 1, 1))
    x = uniform(1, 1, 1, 3)
    x[:] = [-1, 2, 7]
    (y,) = op.evaluate(Node(op, operands, op.infer(operands)), [x, uniform(1, 1, 1, 1) * 0 + 1])
    assert y.reshape(-1).tolist() == [0, 2, 6]


@each(
    ("weight", "sentence"),
    [
        ((64, 1, 7, 7), "weight 64x1x7x7 has 1 channels per filter; 3 input channels in group 1 need 3"),
        ((64, 3, 5, 5), "weight 64x3x5x5 does not end in kernel_shape 7x7"),
    ],
)
def test_illegal_weights_are_refused(weight: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        top.Conv(kernel_shape=(7, 7)).infer(types((1, 3, 173, 141), weight))


@each(
    ("op", "sentence"),
    [
        (top.Conv(kernel_shape=(7, 7), group=2), "3 input and 64 output channels are not divisible by group 2"),
        (top.Conv(kernel_shape=(7, 7), strides=(1,)), "a kernel of 2 dimensions needs 2 strides"),
        (top.Conv(kernel_shape=(7, 7), strides=(0, 1)), "must be at least 1"),
        (top.Conv(kernel_shape=(7, 7), dilations=(30, 1)), "reaches over 181 elements, the padded input has 173"),
        (
            top.Conv(kernel_shape=(7, 7), dilations=(30, 1), strides=(9, 1)),  # a step beyond what is missing
            "reaches over 181 elements, the padded input has 173",
        ),
    ],
)
def test_illegal_attributes_are_refused(op: top.Conv, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        op.infer(types((1, 3, 173, 141), (64, 3, 7, 7)))
