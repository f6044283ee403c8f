"""Whole numbers are exact: sums of products, shifts, and multipliers of 31 bits, against Python's integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
import tpuc_lang as tl

from tests.frontends.lang.cases import convolved_volumes, spread_volumes
from tests.frontends.lang.programs import Array, const, evaluated, integers

MODES = ("half_away_from_zero", "half_to_even", "half_up", "half_down", "towards_zero", "down", "up")


def rounded(value: Fraction, mode: str) -> int:
    """By the definition of each mode."""
    below = value.numerator // value.denominator
    rest = value - below
    match mode:
        case "down":
            return below
        case "up":
            return below + (rest > 0)
        case "towards_zero":
            return below + (rest > 0 and value < 0)
        case "half_up":
            return below + (rest >= Fraction(1, 2))
        case "half_down":
            return below + (rest > Fraction(1, 2))
        case "half_to_even":
            return round(value)
        case _:
            return rounded(value, "half_up") if value > 0 else rounded(value, "half_down")


def each(function: Callable[[int], int], x: Array) -> Array:
    return np.array([function(int(one)) for one in x.reshape(-1)], np.float64).reshape(x.shape)


def clipped(x: Array, dtype: str) -> Array:
    return np.clip(x, np.iinfo(dtype).min, np.iinfo(dtype).max)


def data_of(x: tl.Tensor) -> Array:
    assert x.data is not None
    return x.data.astype(np.int64)


def test_round_modes_as_their_table_has_them() -> None:
    numbers = np.array([1.8, 1.5, 1.2, 0.8, 0.5, 0.2, -0.2, -0.5, -0.8, -1.2, -1.5, -1.8, 0.49999997], np.float32)
    x = tl.Tensor(data=numbers)
    results = evaluated([tl.cast(x, "int8", round_mode=mode) for mode in MODES], [x])
    for mode, found in zip(MODES, results, strict=True):
        np.testing.assert_array_equal(found, [rounded(Fraction(float(one)), mode) for one in numbers], mode)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_arithmetic(name: str, dtype: str) -> None:
    x, y = integers(2, 3, 8, dtype=dtype), integers(2, 1, 8, dtype=dtype, seed=1)
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[name]
    narrow = getattr(tl, name)(x, y)
    wide = getattr(tl, name)(x, y, out_dtype="int32")
    number = getattr(tl, name)(3, x, out_dtype="int16")
    found = evaluated([narrow, wide, number], [x, y])
    wanted = function(data_of(x), data_of(y))
    kept = "int8" if name == "sub" else dtype
    assert (narrow.dtype, wide.dtype, number.dtype) == (kept, "int32", "int16")
    np.testing.assert_array_equal(found[0], clipped(wanted, kept))
    np.testing.assert_array_equal(found[1], wanted)
    np.testing.assert_array_equal(found[2], function(3, data_of(x)))


@pytest.mark.parametrize("mode", MODES)
def test_shifts(mode: str) -> None:
    x, y = integers(3, 16), integers(3, 16, dtype="int16", seed=1)
    results = [
        tl.add_shift(x, y, -3, "int16", mode),
        tl.sub_shift(x, y, -4, "int8", mode),
        tl.mul_shift(x, y, -9, "int8", mode),
        tl.mul_shift(x, 3, 2, "int8", mode, is_saturate=False),
        tl.sub_shift(7, x, 0, "uint8", mode),
    ]
    found = evaluated(results, [x, y])
    left, right = data_of(x), data_of(y)
    for index, (whole, bits, dtype) in enumerate(
        [(left + right, 3, "int16"), (left - right, 4, "int8"), (left * right, 9, "int8")]
    ):
        wanted = each(lambda one, bits=bits: rounded(Fraction(one, 1 << bits), mode), whole)
        np.testing.assert_array_equal(found[index], clipped(wanted, dtype))
    np.testing.assert_array_equal(found[3], (left * 12).astype(np.int8))
    np.testing.assert_array_equal(found[4], clipped(7 - left, "uint8"))


# Multipliers


def wide(seed: int, *shape: int) -> tl.Tensor:
    """Sums that fill all of 24 bits, with the numbers that are easily wrong."""
    data = np.random.default_rng(seed).integers(-(1 << 24), 1 << 24, shape, endpoint=True)
    data.reshape(-1)[:7] = [0, 1, -1, 1 << 24, -(1 << 24), 4096, -4095]
    return tl.Tensor(data=data, dtype="int32")


def saturated_high_product(x: int, factor: int) -> int:
    return max(-(1 << 31), min((1 << 31) - 1, rounded(Fraction(x * factor, 1 << 31), "half_up")))


@pytest.mark.parametrize("mode", MODES)
def test_requant_int(mode: str) -> None:
    x = wide(1, 1, 3, 40)
    factors, shifts, offsets = [1518500249, 1073741825, 3], [-45, -50, -20], [5, -3, 0]
    each_channel = tl.requant_int(x, factors, shifts, offsets, 2, "int16", None, mode)
    single = tl.requant_int(x, 1 << 30, -48, 3, 2, "int8", None, mode)
    doubled = tl.requant_int(x, 1 << 30, -8, 0, 1, "int16", None, mode)
    found = evaluated([each_channel, single, doubled], [x])
    whole = data_of(x)
    wanted = np.stack(
        [
            each(lambda one, f=f, s=s, o=o: rounded(Fraction(one * f, 1 << -s), mode) + o, whole[:, index])
            for index, (f, s, o) in enumerate(zip(factors, shifts, offsets, strict=True))
        ],
        1,
    )
    np.testing.assert_array_equal(found[0], clipped(wanted, "int16"))
    ties = each(lambda one: rounded(Fraction(one, 1 << 18), mode) + 3, whole)
    np.testing.assert_array_equal(found[1], clipped(ties, "int8"))
    stepwise = each(lambda one: rounded(Fraction(saturated_high_product(one, 1 << 30), 1 << 8), mode), whole)
    np.testing.assert_array_equal(found[2], clipped(stepwise, "int16"))


@pytest.mark.parametrize("shift", [-5, 0, 3])
def test_requant_int_by_the_high_half(shift: int) -> None:
    x = tl.Tensor(data=np.random.default_rng(3).integers(-(1 << 20), 1 << 20, (1, 2, 60)), dtype="int32")
    factor, mode = 1234567891, "half_away_from_zero"
    y = tl.requant_int(x, factor, shift, 7, 0, "int16", None, mode, rq_axis=1, fuse_rq_to_matmul=True)

    def wanted(one: int) -> int:
        high = saturated_high_product(one << max(shift, 0), factor)
        return rounded(Fraction(high, 1 << max(-shift, 0)), mode) + 7

    np.testing.assert_array_equal(evaluated(y, [x])[0], clipped(each(wanted, data_of(x)), "int16"))


@pytest.mark.parametrize("dtype", ["int8", "uint16"])
def test_dequant_int(dtype: str) -> None:
    x = integers(1, 4, 50, dtype=dtype)
    plain = tl.dequant_int(x, [3, 5, 1234567, 1], [-2, -1, -12, 0], [1, 2, 3, 4], 0, 0, "int32")
    high = tl.dequant_int(x, 1234567891, -2, 3, 5, 1, "int16", None, "half_to_even")
    found = evaluated([plain, high], [x])
    whole = data_of(x)
    wanted = np.stack(
        [
            each(lambda one, f=f, s=s, o=o: rounded(Fraction((one - o) * f, 1 << -s), "half_up"), whole[:, index])
            for index, (f, s, o) in enumerate(zip([3, 5, 1234567, 1], [-2, -1, -12, 0], [1, 2, 3, 4], strict=True))
        ],
        1,
    )
    exact = np.abs(wanted) <= 1 << 21
    assert exact.mean() > 0.7
    np.testing.assert_array_equal(found[0][exact], wanted[exact])

    def stepwise(one: int) -> int:
        return rounded(Fraction(saturated_high_product((one - 3) << 5, 1234567891), 4), "half_to_even")

    np.testing.assert_array_equal(found[1], clipped(each(stepwise, whole), "int16"))


@pytest.mark.parametrize("mode", MODES)
def test_requant_fp(mode: str) -> None:
    x = tl.Tensor(data=np.arange(-60, 60).reshape(1, 2, 60), dtype="int16")
    floats = tl.Tensor(data=np.arange(-60, 60).reshape(1, 2, 60) / np.float32(8))
    results = [
        tl.requant_fp(x, [0.25, 0.5], [0.5, -1.25], "int8", None, mode, mode),
        tl.requant_fp_to_int(floats, 2.0, 3, 0, "int8", None, mode),
        tl.requant_fp_to_int(x, 0.125, 0.5, 1, "uint8", None, mode),
    ]
    found = evaluated(results, [x, floats])
    whole = data_of(x)
    scales = [(Fraction(1, 4), Fraction(1, 2)), (Fraction(1, 2), Fraction(-5, 4))]
    wanted = [each(lambda one, f=f, o=o: rounded(one * f + o, mode), whole[:, at]) for at, (f, o) in enumerate(scales)]
    np.testing.assert_array_equal(found[0], np.stack(wanted, 1))
    np.testing.assert_array_equal(found[1], each(lambda one: rounded(Fraction(one, 4), mode) + 3, whole))
    third = each(lambda one: rounded(Fraction(one, 8) + Fraction(1, 2), mode), whole)
    np.testing.assert_array_equal(found[2], clipped(third, "uint8"))


def test_dequant_int_to_fp() -> None:
    x = integers(1, 3, 20, dtype="uint8")
    results = [tl.dequant_int_to_fp(x, 0.5, 1.5, "float16"), tl.dequant_int_to_fp(x, [0.5, 0.25, 2.0], [1, 2, 3])]
    found = evaluated(results, [x])
    assert results[0].dtype == "float16"
    np.testing.assert_array_equal(found[0], (data_of(x) - 1.5) * 0.5)
    scales, points = np.array([0.5, 0.25, 2.0]).reshape(3, 1), np.array([1, 2, 3]).reshape(3, 1)
    np.testing.assert_array_equal(found[1], (data_of(x) - points) * scales)


# Products


def filters(*shape: int, dtype: str = "int8") -> Array:
    limits = np.iinfo(dtype)
    return np.random.default_rng(5).integers(limits.min, limits.max, shape, endpoint=True)


def as_volumes(x: Array) -> Array:
    return x[:, :, None]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_conv_int(dtype: str) -> None:
    x, w, bias = integers(1, 4, 6, 5, dtype=dtype), filters(6, 4, 3, 2), filters(6, dtype="int16")
    y = tl.conv_int(x, const(w, "int8"), const(bias, "int32"), [2, 1], None, [1, 0, 1, 1], 1, 3, -2)
    wanted = convolved_volumes(as_volumes(data_of(x) - 3), as_volumes(w + 2), (1, 2, 1), (0, 1, 0, 0, 1, 1))[:, :, 0]
    assert y.dtype == "int32"
    np.testing.assert_array_equal(evaluated(y, [x])[0], wanted + bias.reshape(6, 1, 1))


def test_conv3d_int() -> None:
    x, w = integers(1, 3, 3, 4, 5, dtype="uint8"), filters(2, 3, 2, 2, 3)
    y = tl.conv3d_int(x, const(w, "int8"), None, [1, 2, 1], None, [0, 1, 0, 1, 0, 2], 1, 7, [1, 2, 3])
    offsets = np.array([1, 2, 3]).reshape(1, 3, 1, 1, 1)
    wanted = convolved_volumes(data_of(x) - 7, w - offsets, (1, 2, 1), (0, 1, 0, 1, 0, 2))
    np.testing.assert_array_equal(evaluated(y, [x])[0], wanted)


def test_deconv_int() -> None:
    x, w = integers(1, 4, 3, 4), filters(5, 4, 2, 3)
    y = tl.deconv_int(x, const(w, "int8"), None, [2, 1], input_zp=-3, weight_zp=[1, 2, 3, 4])
    offsets = np.array([1, 2, 3, 4]).reshape(1, 4, 1, 1)
    wanted = spread_volumes(as_volumes(data_of(x) + 3), as_volumes(w - offsets), (1, 2, 1))[:, :, 0]
    np.testing.assert_array_equal(evaluated(y, [x])[0], wanted)


@pytest.mark.parametrize("is_const", [True, False])
def test_matmul_int(is_const: bool) -> None:
    x, w = integers(2, 3, 8), filters(2, 8, 5)
    right = tl.Tensor(data=w, dtype="int8", is_const=is_const)
    bias = const(filters(5, dtype="int16"), "int32")
    y = tl.matmul_int(x, right, bias, keep_dims=False, input_zp=2, right_zp=-1)
    wanted = (data_of(x) - 2) @ (w + 1) + filters(5, dtype="int16")
    found = evaluated(y, [x] if is_const else [x, right])[0]
    np.testing.assert_array_equal(found, wanted.reshape(6, 5))


def test_matrix_mul_of_integers() -> None:
    x, w = integers(3, 8, dtype="uint8"), filters(8, 5)
    y = tl.matrix_mul(x, const(w, "int8"), left_zp=4, out_dtype="uint32")
    assert y.dtype == "uint32"
    np.testing.assert_array_equal(evaluated(y, [x])[0], (data_of(x) - 4) @ w)


def test_matmulrq_int_op() -> None:
    x, w = integers(2, 3, 16), filters(2, 16, 4)
    factors, shifts = [1518500249, 1 << 30, 7, 1234567891], [41, 40, 9, 43]
    y = tl.matmulrq_int_op(x, const(w, "int8"), multiplier=factors, shift=shifts, offset=[1, 2, 3, 4])
    sums = data_of(x) @ w
    columns: Sequence[Array] = [
        each(lambda one, f=f, s=s, o=o: rounded(Fraction(one * f, 1 << s), "half_away_from_zero") + o, sums[..., at])
        for at, (f, s, o) in enumerate(zip(factors, shifts, [1, 2, 3, 4], strict=True))
    ]
    np.testing.assert_array_equal(evaluated(y, [x])[0], clipped(np.stack(columns, -1), "int8"))


# Places and signs


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_lut(dtype: str) -> None:
    x, table = integers(2, 40, dtype=dtype), np.random.default_rng(2).integers(-128, 127, 256, endpoint=True)
    y = tl.lut(x, const(table, "int8"))
    assert y.dtype == "int8"
    np.testing.assert_array_equal(evaluated(y, [x])[0], table[data_of(x) % 256])


def test_signs() -> None:
    x = integers(3, 40)
    found = evaluated([tl.abs(x), tl.leaky_relu(x, 0.3), tl.relu(x), tl.cast(x, "uint8")], [x])
    whole = data_of(x)
    np.testing.assert_array_equal(found[0], np.minimum(np.abs(whole), 127))
    slope = Fraction(float(np.float32(0.3)))
    np.testing.assert_array_equal(
        found[1], each(lambda one: one if one > 0 else rounded(one * slope, "half_away_from_zero"), whole)
    )
    np.testing.assert_array_equal(found[2], np.maximum(whole, 0))
    np.testing.assert_array_equal(found[3], np.maximum(whole, 0))


def test_images_of_integers_grow() -> None:
    x = integers(1, 2, 3, 4, dtype="uint8", scale=0.5, zero_point=3)
    y, rows = tl.interpolate(x, 2, 1), tl.interpolate(tl.reshape(x, [6, 4]), 1, 3)
    assert (y.dtype, y.scale, y.zero_point, rows.scale) == ("uint8", 0.5, 3, 0.5)
    found = evaluated([y, rows], [x])
    np.testing.assert_array_equal(found[0], data_of(x).repeat(2, 2))
    np.testing.assert_array_equal(found[1], data_of(x).reshape(6, 4).repeat(3, 1))
    with pytest.raises(tl.LangError, match="is uint8, and this computes floats"):
        tl.interpolate(x, 2, 2, "linear")


def test_rope_of_integers() -> None:
    x, first, second = integers(1, 2, 3, 4), filters(3, 4), filters(3, 4)[::-1]
    y = tl.rope(x, const(first, "int8"), const(second, "int8"), False, "half_up", "down", "half_up", -6, -7, -1)
    pairs = data_of(x).reshape(1, 2, 3, 2, 2)
    turned = np.stack([-pairs[..., 1], pairs[..., 0]], -1).reshape(1, 2, 3, 4)
    left = clipped(each(lambda one: rounded(Fraction(one, 64), "half_up"), turned * first), "int8")
    right = clipped(each(lambda one: rounded(Fraction(one, 128), "down"), data_of(x) * second), "int8")
    wanted = clipped(each(lambda one: rounded(Fraction(one, 2), "half_up"), left + right), "int8")
    np.testing.assert_array_equal(evaluated(y, [x])[0], wanted)
