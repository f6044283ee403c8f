"""tpu.Cast."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import BF16, F32, ElementType, Node, ScalarType, TensorType
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, f32, integers, quantized, quantized_element

from tests.examples import examples
from tests.families import each
from tests.ops.tpu import plain


def cast(x: Array, source: ElementType, result: ElementType, op: tpu.Cast | None = None) -> Array:
    op = op or tpu.Cast()
    node = Node(op, (TensorType(x.shape, source),), (TensorType(x.shape, result),))
    return op.evaluate(node, [x])[0]


class TestQuantize(OpConformance):
    op = tpu.Cast()
    result = quantized_element("int8", 0.5)

    @staticmethod
    def reference(x: Array) -> Array:
        return np.array([-3, -128, 0, 1, 127], np.int8) if x.size == 5 else x

    samples = ([f32(-1.25, -1e9, 0.2, 0.25, 63.6)],)
    flops = 0


class TestDequantize(OpConformance):
    op = tpu.Cast()
    result = F32

    @staticmethod
    def reference(q: Array) -> Array:
        return (q.astype(np.float32) - 3) * np.float32(0.1)

    samples = ([quantized(integers(3, 4), 0.1, 3)],)
    flops = 0
    rtol = atol = 0.0


@examples(100)
@given(
    x=st.floats(-500, 500, width=32),
    scale=st.floats(1e-3, 10),
    zero=st.integers(-20, 20),
    rounding=st.sampled_from(sorted({*plain.ROUNDINGS} - {"HalfToEven"})),
)
def test_quantizing_is_one_float32_product_one_float32_sum_and_one_rounding(
    x: float, scale: float, zero: int, rounding: str
) -> None:
    factor = Fraction(float(np.float32(1.0 / scale)))
    product = Fraction(float(np.float32(float(Fraction(x) * factor))))  # 48 bits: exact before the one rounding
    total = Fraction(float(np.float32(float(product + zero)))) if zero else product
    expected = plain.saturated(plain.ROUNDINGS[rounding](total), "int8")
    y = cast(f32([x]), F32, quantized_element("int8", scale, zero), tpu.Cast(round_mode=rounding))
    assert y.item() == expected


@examples(100)
@given(x=st.floats(-500, 500, width=32), scale=st.floats(2**-10, 10, width=32), zero=st.integers(-128, 127))
def test_with_halves_to_even_it_is_the_quotient_before_the_zero_point(x: float, scale: float, zero: int) -> None:
    quotient = Fraction(float(np.float32(float(Fraction(x) / Fraction(scale)))))
    expected = plain.saturated(plain.ROUNDINGS["HalfToEven"](quotient) + zero, "int8")
    y = cast(f32([x]), F32, quantized_element("int8", scale, zero), tpu.Cast(round_mode="HalfToEven"))
    assert y.item() == expected


def test_without_scale_integers_are_plain_numbers() -> None:
    op = tpu.Cast(with_scale=False)
    assert cast(f32(1.5, -1.5, 300), F32, quantized_element("int8", 0.1, 7), op).tolist() == [2, -2, 127]
    assert cast(np.array([5], np.int8), quantized_element("int8", 0.1, 7), F32, op).tolist() == [5.0]


def test_not_a_number_becomes_zero_and_infinities_saturate() -> None:
    assert cast(f32(np.nan, np.inf, -np.inf), F32, quantized_element("uint8", 0.1)).tolist() == [0, 255, 0]


def test_floats_round_to_nearest_even() -> None:
    y = cast(f32(1 + 2**-8, 1 + 3 * 2**-8), F32, BF16)
    assert y.dtype == ml_dtypes.bfloat16
    assert y.astype(float).tolist() == [1.0, 1 + 2**-6]


def test_floats_too_large_for_f16_become_infinite() -> None:
    assert cast(f32(1e6, -1e6), F32, ScalarType("f16")).tolist() == [np.inf, -np.inf]


def test_between_integers_is_refused() -> None:
    with pytest.raises(ValueError, match="one side of a cast must be a float, both are integers"):
        cast(np.zeros(1, np.int8), quantized_element("int8", 0.1), quantized_element("int8", 0.2))


@each(
    ("round_half", "expected"), [(False, [64, 64, 64, -64, -65, 126, -128]), (True, [64, 64, 65, -65, -65, 127, -128])]
)
def test_in_half_operands_are_cut_or_rounded_away_from_zero_to_8_bits(round_half: bool, expected: list[int]) -> None:
    """Between 64 and 128 bf16 has halves: a quarter above 64 is in the middle of two, a little less is not."""
    x = np.array([64.0, 64.2499, 64.75, -64.75, -65.0, 126.875, -200.0], np.float32)
    op = tpu.Cast(in_half=True, round_mode="HalfToEven", round_half=round_half)
    got = cast(x, F32, quantized_element("int8", 1.0), op)
    assert got.tolist() == expected


def test_to_bf16_with_round_half_ties_go_away_from_zero() -> None:
    x = np.array([1 + 2**-8, -1 - 2**-8, 1 + 2**-8 - 2**-20, 1 + 3 * 2**-8], np.float32)
    assert cast(x, F32, BF16, tpu.Cast(round_half=True)).tolist() == [1 + 2**-7, -1 - 2**-7, 1.0, 1 + 2**-6]
    assert cast(x, F32, BF16).tolist() == [1.0, -1.0, 1.0, 1 + 2**-6]
