"""TPU ops that scale stored integers element by element: MulShift, Mul, AddConst, LeakyRelu, PRelu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import F32, Node, Op, TensorType
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, integers, onnx_node, quantized_element, uniform

from tests.ops.tpu import plain

ROUNDING = st.sampled_from(sorted(plain.ROUNDINGS))
MULTIPLIER, SHIFT, ZERO, SEED = st.integers(-127, 127), st.integers(0, 12), st.integers(-9, 9), st.integers(0, 99)


class TestMul(OpConformance):
    op = tpu.Mul(do_relu=True)

    @staticmethod
    def reference(x: Array, y: Array) -> Array:
        return (x * y).clip(0)

    samples = ([uniform(2, 3), uniform(3)],)
    flops = 1 + 1


class TestAddConst(OpConformance):
    op = tpu.AddConst(const_val=0.75)

    @staticmethod
    def reference(x: Array) -> Array:
        return x + np.float32(0.75)

    samples = ([uniform(2, 3)],)
    flops = 1


class TestMulConst(OpConformance):
    op = tpu.MulConst(const_val=0.3)

    @staticmethod
    def reference(x: Array) -> Array:
        return x * np.float32(0.3)

    samples = ([uniform(2, 3)],)
    flops = 1


class TestLeakyRelu(OpConformance):
    op = tpu.LeakyRelu(alpha=0.1)
    reference = onnx_node("LeakyRelu", alpha=0.1)
    samples = ([uniform(2, 3)],)
    flops = 1


class TestPRelu(OpConformance):
    op = tpu.PReluOp()
    reference = onnx_node("PRelu")
    samples = ([uniform(2, 3, 4), uniform(3, 1)],)
    flops = 1


def run(op: Op, arrays: Sequence[Array], zeros: Sequence[int]) -> Array:
    """int8 everywhere; the last zero point is the result's."""
    types = tuple(
        TensorType(array.shape, quantized_element("int8", 0.5, zero))
        for array, zero in zip(arrays, zeros, strict=False)
    )
    result = TensorType(
        np.broadcast_shapes(*(array.shape for array in arrays)), quantized_element("int8", 0.5, zeros[-1])
    )
    assert op.infer(types) is not None
    (y,) = op.evaluate(Node(op, types, (result,)), list(arrays))
    assert y.dtype == np.int8
    return y


def q8(value: Any, zero: int) -> int:
    return plain.saturated(value + zero, "int8")


@given(multiplier=MULTIPLIER, shift=SHIFT, zero=ZERO, result_zero=ZERO, rounding=ROUNDING, seed=SEED)
def test_mul_shift(multiplier: int, shift: int, zero: int, result_zero: int, rounding: str, seed: int) -> None:
    x = integers(9, seed=seed)
    y = run(tpu.MulShift(multiplier=multiplier, rshift=shift, round_mode=rounding), [x], [zero, result_zero])
    expected = [plain.ROUNDINGS[rounding](plain.scaled(q - zero, multiplier, shift)) for q in x.tolist()]
    assert y.tolist() == [q8(value, result_zero) for value in expected]


def test_flops_of_mul_shift() -> None:
    type_ = TensorType((3, 4), quantized_element("int8", 0.5))
    op = tpu.MulShift(multiplier=3, rshift=1)
    assert op.flops(Node(op, (type_,), (type_,))) == 2 * 3 * 4


@given(multiplier=MULTIPLIER, shift=SHIFT, zeros=st.tuples(ZERO, ZERO, ZERO), rounding=ROUNDING, seed=SEED)
def test_mul(multiplier: int, shift: int, zeros: tuple[int, ...], rounding: str, seed: int) -> None:
    x, y = integers(3, 4, seed=seed), integers(4, seed=seed + 1)
    z = run(tpu.Mul(multiplier=multiplier, rshift=shift, round_mode=rounding), [x, y], zeros)
    for i, j in np.ndindex(3, 4):
        product = (int(x[i, j]) - zeros[0]) * (int(y[j]) - zeros[1])
        assert z[i, j] == q8(plain.ROUNDINGS[rounding](plain.scaled(product, multiplier, shift)), zeros[2])


@given(multiplier=MULTIPLIER, shift=SHIFT, zero=ZERO, result_zero=ZERO, constant=st.integers(-9999, 9999), seed=SEED)
def test_add_const(multiplier: int, shift: int, zero: int, result_zero: int, constant: int, seed: int) -> None:
    x = integers(9, seed=seed)
    op = tpu.AddConst(const_val=float(constant), multiplier=multiplier, rshift=shift, do_relu=True)
    y = run(op, [x], [zero, result_zero])
    totals = [(q - zero) * multiplier + constant for q in x.tolist()]
    expected = [q8(plain.half_up(plain.scaled(total, 1, shift)), result_zero) for total in totals]
    assert y.tolist() == [max(q, result_zero) for q in expected]


@pytest.mark.parametrize("positive", [None, (100, 6)])
@given(multiplier=MULTIPLIER, shift=SHIFT, zero=ZERO, result_zero=ZERO, rounding=ROUNDING, seed=SEED)
def test_leaky_relu(
    positive: tuple[int, int] | None,
    multiplier: int,
    shift: int,
    zero: int,
    result_zero: int,
    rounding: str,
    seed: int,
) -> None:
    x = integers(2, 9, seed=seed)
    up, up_shift = positive or (None, None)
    leaky = tpu.LeakyRelu(
        multiplier=up, rshift=up_shift, multiplier_neg=multiplier, rshift_neg=shift, round_mode=rounding
    )
    slope = np.full((2, 1), multiplier, np.int8)
    learnt = tpu.PReluOp(multiplier_pos=up, rshift_pos=up_shift, rshift=shift, round_mode=rounding)
    first = run(leaky, [x], [zero, result_zero])
    second = run(learnt, [x, slope], [zero, 0, result_zero])
    for place in np.ndindex(2, 9):
        value = int(x[place]) - zero
        if value < 0:
            value = plain.ROUNDINGS[rounding](plain.scaled(value, multiplier, shift))
        elif positive:
            value = plain.ROUNDINGS[rounding](plain.scaled(value, *positive))
        assert first[place] == second[place] == q8(value, result_zero)


def test_integers_are_refused_where_only_floats_work() -> None:
    type = TensorType((1,), quantized_element("int8", 0.5))
    with pytest.raises(ValueError, match=r"this operand stores i8; use tpu\.MulShift"):
        tpu.MulConst(const_val=2.0).infer((type,))
    with pytest.raises(ValueError, match="integers need multiplier_neg, floats need alpha"):
        tpu.LeakyRelu(alpha=0.1).infer((type,))
    with pytest.raises(ValueError, match="integers need multiplier_neg, floats need alpha"):
        tpu.LeakyRelu().infer((TensorType((1,), F32),))


def test_a_multiplier_alone_is_that_of_numbers_below_zero() -> None:
    """As TPU-MLIR writes it for chips that leave the others alone."""
    x = integers(2, 9, seed=5)
    alone, usual = tpu.LeakyRelu(multiplier=51, rshift=9), tpu.LeakyRelu(multiplier_neg=51, rshift_neg=9)
    np.testing.assert_array_equal(run(alone, [x], [0, 0]), run(usual, [x], [0, 0]))


def test_magnitudes_of_stored_integers() -> None:
    x = integers(2, 9, seed=6)
    values = [[q8(abs(int(value) - 3), 3) for value in row] for row in x]
    np.testing.assert_array_equal(run(tpu.Active(mode="ABSVAL"), [x], [3, 3]), values)
