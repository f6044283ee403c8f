"""Filters that a network stores as integers, on chips that store int8."""

from __future__ import annotations

import math

import numpy as np
from tpuc.api import ScalarType, Uniform, UniformPerAxis
from tpuc_ops.quant.products import stored_product

I8, U8, F32 = ScalarType("i8"), ScalarType("u8"), ScalarType("f32")
SOURCE, RESULT = Uniform(I8, F32, 0.5, 3), Uniform(I8, F32, 2.0, -7)


def factors(multipliers: tuple[int, ...], shifts: tuple[int, ...]) -> list[float]:
    return [math.ldexp(m, -s) for m, s in zip(multipliers, shifts, strict=True)]


def test_int8_filters_and_their_bias_stay() -> None:
    filters = np.array([[1, -2, 127], [-128, 5, 6]], np.int8)
    product = stored_product(
        filters, UniformPerAxis(I8, F32, 0, (0.25, 0.125), (0, 0)), np.array([10, -20]), SOURCE, RESULT
    )
    np.testing.assert_array_equal(product.filters, filters)
    # What the operand's zero point (3) adds to each sum is taken off: 3 * 126 and 3 * -117.
    assert product.bias is not None
    assert product.bias.tolist() == [10 - 378, -20 + 351]
    # Powers of two are exact: 0.25 * 0.5 / 2 and half of that.
    assert factors(product.multipliers, product.right_shifts) == [0.0625, 0.03125]


def test_unsigned_filters_lose_their_zero_point() -> None:
    filters = np.array([[0, 100, 227], [227, 100, 0]], np.uint8)
    product = stored_product(filters, Uniform(U8, F32, 0.25, 100), None, SOURCE, RESULT)
    assert product.filters.dtype == np.int8
    np.testing.assert_array_equal(product.filters, [[-100, 0, 127], [127, 0, -100]])
    assert factors(product.multipliers, product.right_shifts) == [0.0625, 0.0625]
    assert product.bias is not None
    assert product.bias.tolist() == [-3 * 27, -3 * 27]


def test_filters_beyond_int8_stay_whole() -> None:
    filters = np.array([[0, 100, 227], [255, 100, 0]], np.uint8)
    product = stored_product(filters, Uniform(U8, F32, 0.25, 100), None, SOURCE, RESULT)
    assert product.filters.dtype == np.int16
    np.testing.assert_array_equal(product.filters, [[-100, 0, 127], [155, 0, -100]])
    assert product.bias is not None
    assert product.bias.tolist() == [-3 * 27, -3 * 55]


def test_factors_are_those_of_float32() -> None:
    # 0.1 * 0.3 / 0.7 with each step rounded to float32, which a quotient of real numbers is not.
    scales = Uniform(I8, F32, 0.3), Uniform(I8, F32, 0.1), Uniform(I8, F32, 0.7)
    product = stored_product(np.ones((1, 1), np.int8), scales[0], None, scales[1], scales[2])
    wanted = float(np.float32(0.1) * np.float32(0.3) / np.float32(0.7))
    assert product.floats == (wanted,)
    assert factors(product.multipliers, product.right_shifts) == [wanted]


def test_without_zero_points_there_is_no_bias() -> None:
    product = stored_product(np.ones((2, 3), np.int8), Uniform(I8, F32, 0.25), None, Uniform(I8, F32, 0.5), RESULT)
    assert product.bias is None
