"""What TFLite's integer arithmetic does not have, in TOP ops on quantized values: one sentence each."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import F32, Node, Op, ScalarType, TensorType, Uniform
from tpuc_ops import top
from tpuc_ops.convolution import exact_dtype
from tpuc_ops.integers import requantized
from tpuc_ops.linear import integer_range

from tests.families import each

IMAGE = (1, 4, 8, 8)
I8, I16 = (Uniform(ScalarType(name), F32, 0.5, 0) for name in ("i8", "i16"))
OTHER = Uniform(ScalarType("i8"), F32, 0.25, 3)


def of(*dims: int, element: Uniform | ScalarType = I8) -> TensorType:
    return TensorType(dims, element)


CASES: list[tuple[Op, list[TensorType], TensorType, str]] = [
    (
        top.Conv(kernel_shape=(1, 1)),
        [of(*IMAGE), of(6, 4, 1, 1, element=F32)],
        of(1, 6, 8, 8),
        "its filter is not quantized, but its other operands are",
    ),
    (top.Add(), [of(2), of(2), of(2)], of(2), "quantized sums need two operands without coeff"),
    (top.Add(coeff=(1.0, 2.0)), [of(2), of(2)], of(2), "quantized sums need two operands without coeff"),
    (top.Mul(), [of(2), of(2), of(2)], of(2), "quantized products need two operands"),
    (
        top.Div(),
        [of(2), of(2)],
        of(2),
        "a divisor represents 0, which the network's own runtime refuses too",
    ),
    (
        top.Normalize(across_spatial=True),
        [of(*IMAGE), of(1, element=F32)],
        of(*IMAGE),
        "quantized Normalize needs the channels as axis, a scale of 1, and steps of 1/128",
    ),
    (
        top.Normalize(),
        [of(*IMAGE), of(1, element=F32)],
        of(*IMAGE),
        "quantized Normalize needs the channels as axis, a scale of 1, and steps of 1/128",
    ),
    (top.Sigmoid(), [of(2, element=I16)], of(2, element=I16), "quantized values of 16 bits are not supported here"),
    (
        top.Interp(scale_h=2.0, scale_w=2.0, mode="nearest", coord_mode="asymmetric"),
        [of(*IMAGE)],
        of(1, 4, 16, 16),
        "mode nearest with asymmetric is not supported for quantized values",
    ),
    (
        top.Reduce(axes=(1,), mode="ReduceProd"),
        [of(2, 3)],
        of(2, 1),
        "ReduceProd of quantized values is not supported",
    ),
    (
        top.Max(),
        [of(2), of(2, element=OTHER)],
        of(2),
        "operands and result must have the same scale and zero point",
    ),
]


def zeros(type: TensorType) -> NDArray[Any]:
    return np.zeros(type.dims, "f4" if type.storage.is_float else f"i{type.storage.bits // 8}")


@each(("op", "operands", "result", "sentence"), CASES)
def test_sentences(op: Op, operands: list[TensorType], result: TensorType, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        op.evaluate(Node(op, tuple(operands), (result,)), [zeros(operand) for operand in operands])


def test_a_relu_changes_the_scale() -> None:
    # 10 steps of 0.25 above zero point 3 are 2.5, which are 5 steps of 0.5; below 3 all is 0.
    node = Node(top.Relu(), (of(2, element=OTHER),), (of(2),))
    (y,) = node.op.evaluate(node, [np.array([13, -7], np.int8)])
    assert y.tolist() == [5, 0]


def test_sums_beyond_53_bits() -> None:
    with pytest.raises(ValueError, match=r"^the integer sums of this op do not fit 53 bits$"):
        exact_dtype(1 << 30, np.full((1, 1 << 10), 1 << 20))


def test_multipliers_of_another_count() -> None:
    with pytest.raises(ValueError, match=r"^3 multipliers and 3 shifts do not fit 2 channels$"):
        requantized(np.zeros((1, 2)), (1, 1, 1), (0, 0, 0), "MultiplierShift", "HalfUp", of(1, 2))


def test_a_type_that_is_no_integer() -> None:
    assert integer_range("UINT4") == (0, 15)
    assert integer_range("INT16") == (-32768, 32767)
    with pytest.raises(ValueError, match=r"^FLOAT16 is not an integer type$"):
        integer_range("FLOAT16")
