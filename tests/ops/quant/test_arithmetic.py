"""The arithmetic against exact rationals: every rounding mode, every function, and the worked numbers of the seeds."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tpuc_ops.quant import arithmetic
from tpuc_ops.quant.arithmetic import Rounding

from tests.families import each

MODES = list(Rounding)
MODE = st.sampled_from(MODES)
INT8, INT32, INT64 = (st.integers(-(1 << n), (1 << n) - 1) for n in (7, 31, 63))
DTYPES = st.sampled_from([np.int8, np.uint8, np.int16, np.int32])


def round_exactly(x: Fraction, mode: Rounding) -> int:
    """The definition, on rationals."""
    down, up = math.floor(x), math.ceil(x)
    nearest = down if x - down < Fraction(1, 2) else up
    tie = x - down == Fraction(1, 2)
    outwards, inwards = (up, down) if x > 0 else (down, up)
    match mode:
        case Rounding.UP:
            return up
        case Rounding.DOWN:
            return down
        case Rounding.TOWARDS_ZERO:
            return inwards
        case Rounding.HALF_UP:
            return up if tie else nearest
        case Rounding.HALF_DOWN:
            return down if tie else nearest
        case Rounding.HALF_AWAY_FROM_ZERO:
            return outwards if tie else nearest
        case Rounding.HALF_TOWARDS_ZERO:
            return inwards if tie else nearest
        case Rounding.HALF_TO_EVEN:
            return (down if down % 2 == 0 else up) if tie else nearest
        case Rounding.HALF_TO_ODD:
            return (down if down % 2 == 1 else up) if tie else nearest


def clip(value: int, dtype: type[np.integer]) -> int:
    limits = np.iinfo(dtype)
    return max(int(limits.min), min(int(limits.max), value))


def scaled(x: int, shift: int) -> Fraction:
    """``x / 2**shift``."""
    return Fraction(x) / Fraction(2) ** shift


@each(
    ("mode", "expected"),
    [
        # of -2.5 -1.5 -0.75 -0.5 0.5 0.75 1.5 2.5
        (Rounding.HALF_AWAY_FROM_ZERO, [-3, -2, -1, -1, 1, 1, 2, 3]),
        (Rounding.HALF_UP, [-2, -1, -1, 0, 1, 1, 2, 3]),
        (Rounding.HALF_DOWN, [-3, -2, -1, -1, 0, 1, 1, 2]),
        (Rounding.HALF_TO_EVEN, [-2, -2, -1, 0, 0, 1, 2, 2]),
        (Rounding.HALF_TO_ODD, [-3, -1, -1, -1, 1, 1, 1, 3]),
        (Rounding.HALF_TOWARDS_ZERO, [-2, -1, -1, 0, 0, 1, 1, 2]),
        (Rounding.TOWARDS_ZERO, [-2, -1, 0, 0, 0, 0, 1, 2]),
        (Rounding.UP, [-2, -1, 0, 0, 1, 1, 2, 3]),
        (Rounding.DOWN, [-3, -2, -1, -1, 0, 0, 1, 2]),
    ],
)
def test_rounding_modes_by_hand(mode: Rounding, expected: list[int]) -> None:
    values = np.array([-2.5, -1.5, -0.75, -0.5, 0.5, 0.75, 1.5, 2.5])
    assert arithmetic.round_to_int(values, mode).tolist() == expected
    assert arithmetic.shift_right((values * 4).astype(np.int64), 2, mode).tolist() == expected
    assert [round_exactly(Fraction(v), mode) for v in values] == expected


class TestShiftRight:
    @given(st.lists(st.tuples(INT64, st.integers(0, 70)), min_size=1, max_size=8), MODE)
    def test_equals_the_exact_quotient_for_any_int64(self, cases: list[tuple[int, int]], mode: Rounding) -> None:
        values, shifts = np.array(cases, np.int64).T
        expected = [round_exactly(scaled(x, s), mode) for x, s in cases]
        assert arithmetic.shift_right(values, shifts, mode).tolist() == expected
        for x, s in cases:
            assert int(arithmetic.shift_right(x, s, mode)) == round_exactly(scaled(x, s), mode)

    @given(st.integers(-(1 << 20), 1 << 20), st.integers(0, 12), st.integers(-2, 2), MODE)
    def test_is_exact_at_and_beside_every_tie(self, whole: int, shift: int, beside: int, mode: Rounding) -> None:
        x = (whole << shift) + (1 << shift >> 1) + beside
        assert int(arithmetic.shift_right(x, shift, mode)) == round_exactly(scaled(x, shift), mode)

    @each("mode", MODES)
    @each("shift", [0, 1, 2, 59, 60, 61, 62, 63, 64, 65, 200])
    def test_is_exact_at_the_ends_of_int64(self, shift: int, mode: Rounding) -> None:
        ends = [-(1 << 63), 1 - (1 << 63), -(1 << 62) - 1, -(1 << 62), -1, 0, 1, 1 << 62, (1 << 62) + 1, (1 << 63) - 1]
        expected = [round_exactly(scaled(x, shift), mode) for x in ends]
        assert arithmetic.shift_right(ends, shift, mode).tolist() == expected

    @given(st.lists(st.tuples(INT64, st.integers(-80, 70)), min_size=1, max_size=8), MODE)
    def test_negative_shift_multiplies_and_saturates(self, cases: list[tuple[int, int]], mode: Rounding) -> None:
        values, shifts = np.array(cases, np.int64).T
        expected = [clip(round_exactly(scaled(x, s), mode), np.int64) for x, s in cases]
        assert arithmetic.shift_right(values, shifts, mode).tolist() == expected

    def test_shifts_broadcast_over_channels_and_the_input_is_kept(self) -> None:
        x = np.full((1, 3, 2, 2), 6, np.int64)
        result = arithmetic.shift_right(x, np.array([0, 1, 2]).reshape(1, 3, 1, 1), Rounding.HALF_UP)
        assert result[0, :, 0, 0].tolist() == [6, 3, 2]
        assert (x == 6).all()

    def test_of_nothing_is_nothing(self) -> None:
        assert arithmetic.shift_right(np.zeros((0, 3), np.int64), 2, Rounding.UP).shape == (0, 3)


class TestRoundToInt:
    @given(st.lists(st.floats(-1e18, 1e18), min_size=1, max_size=8), MODE)
    def test_is_exact_for_float64(self, values: list[float], mode: Rounding) -> None:
        expected = [round_exactly(Fraction(v), mode) for v in values]
        assert arithmetic.round_to_int(np.array(values), mode).tolist() == expected

    @given(st.floats(-300, 300, width=32), st.integers(-600, 600), st.sampled_from([-1, 0, 1]), MODE)
    def test_is_exact_for_float32_at_and_beside_ties(self, x: float, ties: int, side: int, mode: Rounding) -> None:
        beside = np.nextafter(np.float32(ties / 2), np.float32(side * 1000)) if side else np.float32(ties / 2)
        for value in (np.float32(x), beside):
            result = arithmetic.round_to_int(np.array([value]), mode)
            assert result.tolist() == [round_exactly(Fraction(float(value)), mode)]

    @given(st.floats(-2000, 2000, width=16), MODE)
    def test_is_exact_for_float16(self, x: float, mode: Rounding) -> None:
        result = arithmetic.round_to_int(np.array([x], np.float16), mode)
        assert result.tolist() == [round_exactly(Fraction(x), mode)]

    @each("mode", [m for m in MODES if m is not Rounding.UP])
    def test_the_float_below_one_half_stays_zero(self, mode: Rounding) -> None:
        below = np.nextafter(np.float32(0.5), np.float32(0))  # 0.49999997
        assert arithmetic.round_to_int(below, mode) == 0

    @each("mode", MODES)
    def test_infinity_saturates_and_nan_becomes_zero(self, mode: Rounding) -> None:
        values = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30, -(2.0**63), 2.0**63], np.float32)
        high, low = (1 << 63) - 1, -(1 << 63)
        assert arithmetic.round_to_int(values, mode).tolist() == [high, low, 0, high, low, low, high]


class TestSaturate:
    @given(st.lists(INT64, min_size=1), DTYPES)
    def test_clips_to_the_type(self, values: list[int], dtype: type[np.integer]) -> None:
        result = arithmetic.saturate(np.array(values, np.int64), dtype)
        assert result.dtype == dtype
        assert result.tolist() == [clip(v, dtype) for v in values]

    def test_narrow_input_and_wide_limits(self) -> None:
        assert arithmetic.saturate(np.array([0, 255], np.uint8), np.int8).tolist() == [0, 127]
        assert arithmetic.saturate(np.array([-128, 127], np.int8), np.uint8).tolist() == [0, 127]
        assert arithmetic.saturate(np.array([-128, 127], np.int8), np.int32).tolist() == [-128, 127]
        assert arithmetic.saturate(np.array([-1e9, 3.0], np.float32), np.int8).tolist() == [-128, 3]


class TestRequantize:
    @given(st.lists(st.tuples(INT32, INT32, st.integers(-10, 70)), min_size=1, max_size=8), INT8, MODE, DTYPES)
    def test_rounds_the_full_product_once(
        self, cases: list[tuple[int, int, int]], zero: int, mode: Rounding, dtype: type[np.integer]
    ) -> None:
        acc, multiplier, shift = np.array(cases, np.int64).T
        expected = [clip(round_exactly(scaled(a * m, s), mode) + zero, dtype) for a, m, s in cases]
        result = arithmetic.requantize(acc.astype(np.int32), multiplier, shift, zero, mode, dtype)
        assert result.dtype == dtype
        assert result.tolist() == expected

    @given(st.lists(st.integers(-(1 << 23), 1 << 23), min_size=1), st.integers(30, 45), INT8, MODE)
    def test_scalars_and_channels_agree_with_rationals(
        self, acc: list[int], shift: int, zero: int, mode: Rounding
    ) -> None:
        multiplier = 2119995857
        expected = [clip(round_exactly(scaled(a * multiplier, shift), mode) + zero, np.int8) for a in acc]
        values = np.array(acc, np.int32)
        assert arithmetic.requantize(values, multiplier, shift, zero, mode, np.int8).tolist() == expected
        wide = arithmetic.requantize(
            values.reshape(-1, 1, 1), np.full((len(acc), 1, 1), multiplier), shift, zero, mode, np.int8
        )
        assert wide.shape == (len(acc), 1, 1)
        assert wide.reshape(-1).tolist() == expected

    @each("shape", [(2, 5, 129, 131), (3, 40000), (70000,), (1, 3, 200, 200), (0, 4)])
    def test_blocks_cover_any_shape(self, shape: tuple[int, ...]) -> None:
        rng = np.random.default_rng(0)
        acc = rng.integers(-(1 << 20), 1 << 20, shape, np.int32)
        axis = 1 if len(shape) > 1 else 0
        channels = [1] * len(shape)
        channels[axis] = shape[axis]
        multiplier = rng.integers(1, 1 << 10, channels)
        expected = np.clip(((acc.astype(np.int64) * multiplier + (1 << 21)) >> 22) + 3, -128, 127)
        result = arithmetic.requantize(acc, multiplier, 22, 3, Rounding.HALF_UP, np.int8)
        np.testing.assert_array_equal(result, expected)
        back = arithmetic.requantize(acc[..., ::-1], multiplier[..., ::-1], 22, 3, Rounding.HALF_UP, np.int8)
        np.testing.assert_array_equal(back, expected[..., ::-1])

    def test_wide_accumulators_are_exact_until_the_product_leaves_64_bits(self) -> None:
        acc = np.array([(1 << 53) + 1, -(1 << 53) - 1])
        result = arithmetic.requantize(acc, 1023, 33, 0, Rounding.HALF_UP, np.int32)
        expected = [round_exactly(scaled(a * 1023, 33), Rounding.HALF_UP) for a in acc.tolist()]
        assert result.tolist() == expected
        with pytest.raises(
            OverflowError, match=r"requantize: accumulator times multiplier may reach .*, beyond 64 bits"
        ):
            arithmetic.requantize(acc, 1 << 30, 33, 0, Rounding.HALF_UP, np.int32)

    def test_zero_point_comes_after_rounding_and_before_saturation(self) -> None:
        acc = np.array([-300, -3, 3, 300], np.int32)
        result = arithmetic.requantize(acc, 1, 1, 10, Rounding.HALF_AWAY_FROM_ZERO, np.int8)
        assert result.tolist() == [-128, 8, 12, 127]


def qdm_exactly(acc: int, multiplier: int, shift: int, mode: Rounding) -> int:
    """The rule by hand: shift left, high half of the product half-up, saturate, shift right."""
    product = Fraction(acc << max(-shift, 0)) * multiplier
    high = clip(round_exactly(product / (1 << 31), Rounding.HALF_UP), np.int32)
    return round_exactly(scaled(high, max(shift, 0)), mode)


class TestRequantizeQdm:
    @given(
        st.lists(st.tuples(INT32, st.integers(0, (1 << 31) - 1), st.integers(-31, 40)), min_size=1, max_size=8),
        INT8,
        MODE,
        DTYPES,
    )
    def test_equals_the_two_step_definition(
        self, cases: list[tuple[int, int, int]], zero: int, mode: Rounding, dtype: type[np.integer]
    ) -> None:
        acc, multiplier, shift = np.array(cases, np.int64).T
        expected = [clip(qdm_exactly(a, m, s, mode) + zero, dtype) for a, m, s in cases]
        result = arithmetic.requantize_qdm(acc.astype(np.int32), multiplier, shift, zero, mode, dtype)
        assert result.tolist() == expected
        for (a, m, s), wanted in zip(cases, expected, strict=True):
            one = arithmetic.requantize_qdm(np.array([a], np.int32), m, s, zero, mode, dtype)
            assert one.tolist() == [wanted]

    def test_rounds_twice_where_the_single_rounding_does_not(self) -> None:
        # The exact quotient 0.25 rounds to 0. In two steps: 0.5 half-up gives 1, and half of that again gives 1.
        acc = np.array([1], np.int32)
        assert arithmetic.requantize_qdm(acc, 1 << 30, 1, 0, Rounding.HALF_AWAY_FROM_ZERO, np.int8).tolist() == [1]
        assert arithmetic.requantize(acc, 1 << 30, 32, 0, Rounding.HALF_AWAY_FROM_ZERO, np.int8).tolist() == [0]

    def test_takes_the_largest_multiplier_and_refuses_what_is_beyond_32_bits(self) -> None:
        # 100 * (1 - 2**-31) is nearest to 100.
        largest = (1 << 31) - 1
        assert arithmetic.requantize_qdm(np.array([100]), largest, 0, 0, Rounding.HALF_UP, np.int8).tolist() == [100]
        with pytest.raises(OverflowError, match="a multiplier does not fit 32 bits"):
            arithmetic.requantize_qdm(np.array([1]), 1 << 31, 0, 0, Rounding.HALF_UP, np.int8)


class TestFloatQuantization:
    @given(
        st.lists(st.lists(st.integers(-4000, 4000), min_size=3, max_size=3), min_size=1, max_size=5),
        st.lists(st.integers(-3, 4), min_size=5, max_size=5),
        MODE,
    )
    def test_rows_by_divisors(self, values: list[list[int]], exponents: list[int], mode: Rounding) -> None:
        rows = np.array(values, np.float32) / np.float32(8)
        divisors = np.exp2(exponents[: len(rows)])
        expected = [
            [clip(round_exactly(Fraction(x, 8) / Fraction(d), mode), np.int8) for x in row]
            for row, d in zip(values, divisors.tolist(), strict=True)
        ]
        assert arithmetic.round_quotients(rows, divisors, mode, np.int8).tolist() == expected
        assert arithmetic.largest_magnitudes(rows).tolist() == [max(abs(x) for x in row) / 8 for row in values]

    def test_rows_beyond_a_block(self) -> None:
        rows = np.arange(5 * 30000, dtype=np.float32).reshape(5, 30000)
        found = arithmetic.round_quotients(rows, np.full(5, 1000.0), Rounding.DOWN, np.int16)
        np.testing.assert_array_equal(found, np.arange(5 * 30000).reshape(5, 30000) // 1000)
        assert arithmetic.largest_magnitudes(np.zeros((2, 0), np.float32)).tolist() == [0, 0]

    @given(st.floats(-1e4, 1e4, width=32), st.integers(-9, 3), st.integers(-130, 260), MODE, DTYPES)
    def test_rounds_quotient_plus_zero_point_exactly(
        self, x: float, exponent: int, zero: int, mode: Rounding, dtype: type[np.integer]
    ) -> None:
        scale = 2.0**exponent  # the quotient is exact, so a rational tells the one right answer
        expected = clip(round_exactly(Fraction(x) / Fraction(scale) + zero, mode), dtype)
        assert arithmetic.quantize_float(np.array([x], np.float32), scale, zero, mode, dtype).tolist() == [expected]
        assert arithmetic.quantize_product(np.array([x]), 1 / scale, zero, mode, dtype).tolist() == [expected]

    @given(st.integers(-600, 600), st.integers(-9, 9), MODE)
    def test_ties_depend_on_the_sum(self, halves: int, zero: int, mode: Rounding) -> None:
        expected = clip(round_exactly(Fraction(halves, 2) + zero, mode), np.int8)
        assert arithmetic.quantize_float(np.array([halves / 2]), 1.0, zero, mode, np.int8).tolist() == [expected]

    @given(st.floats(-100, 100), st.floats(0.001, 10), MODE)
    def test_takes_the_quotient_in_float64(self, x: float, scale: float, mode: Rounding) -> None:
        expected = clip(round_exactly(Fraction(x / scale), mode), np.int8)
        assert arithmetic.quantize_float([x], scale, 0, mode, np.int8).tolist() == [expected]

    def test_product_is_a_float32_one(self) -> None:
        x, factor = np.float32(0.1), np.float32(5)  # 0.1f is above 1/10, yet the float32 product is the tie 0.5
        assert arithmetic.quantize_product([x], factor, 0, Rounding.HALF_TO_EVEN, np.int8).tolist() == [0]
        assert arithmetic.quantize_float([x], 0.2, 0, Rounding.HALF_TO_EVEN, np.int8).tolist() == [1]

    def test_scales_and_zero_points_per_channel(self) -> None:
        x = np.array([[1.0, 2.0], [1.0, 2.0]])
        result = arithmetic.quantize_float(x, [[0.5], [0.25]], [[1], [0]], Rounding.HALF_AWAY_FROM_ZERO, np.int8)
        assert result.tolist() == [[3, 5], [4, 8]]

    def test_infinite_and_missing_values(self) -> None:
        result = arithmetic.quantize_float([np.inf, -np.inf, np.nan], 0.5, 3, Rounding.HALF_UP, np.int8)
        assert result.tolist() == [127, -128, 3]

    @given(INT8, st.floats(1e-6, 1e3), INT8)
    def test_dequantize_is_the_rounded_product(self, q: int, scale: float, zero: int) -> None:
        result = arithmetic.dequantize(np.array([q], np.int8), scale, zero)
        assert result.dtype == np.float32
        assert result[0] == np.float32((q - zero) * scale)

    @given(INT8, st.floats(1e-6, 1e3), INT8)
    def test_quantize_undoes_dequantize(self, q: int, scale: float, zero: int) -> None:
        back = arithmetic.quantize_float(
            arithmetic.dequantize([q], scale, zero), scale, zero, Rounding.HALF_TO_EVEN, np.int8
        )
        assert back.tolist() == [q]


FACTOR = st.floats(1e-7, 0.999999)


class TestDecompositions:
    def test_worked_example_of_the_seed_in_every_rule(self) -> None:
        assert arithmetic.decompose_frexp31(0.1234) == (2119995857, 34)
        assert arithmetic.decompose_search(0.1234) == (132499741, 30)
        assert arithmetic.decompose_search(0.1234, bits=8) == (63, 9)
        assert arithmetic.decompose_shift_to_max(0.1234) == (126, 10)

    @given(st.floats(1e-30, 1e9))
    def test_frexp31_has_a_relative_error_below_half_a_unit_in_31_bits(self, value: float) -> None:
        multiplier, shift = arithmetic.decompose_frexp31(value)
        assert 1 << 30 <= multiplier < 1 << 31
        assert abs(scaled(multiplier, shift) / Fraction(value) - 1) <= Fraction(1, 1 << 31)
        assert arithmetic.decompose_frexp31(-value) == (-multiplier, shift)

    def test_frexp31_carries_into_the_exponent(self) -> None:
        assert arithmetic.decompose_frexp31(1 - 2.0**-40) == (1 << 30, 30)
        assert arithmetic.decompose_frexp31(0.0) == (0, 0)

    @given(FACTOR, st.sampled_from([(32, -32, 30), (8, 0, 30), (8, -32, 30)]))
    def test_search_finds_the_smallest_error_at_the_lowest_shift(
        self, value: float, options: tuple[int, int, int]
    ) -> None:
        bits, lowest, highest = options
        candidates: list[tuple[Fraction, int, int]] = []
        for n in range(lowest, highest + 1):
            m = round_exactly(Fraction(value) * Fraction(2) ** n, Rounding.HALF_AWAY_FROM_ZERO)
            if m < (1 << (bits - 1)) - 1:
                candidates.append((abs(scaled(m, n) - Fraction(value)), n, m))
        _, shift, multiplier = min(candidates)
        expected = (multiplier, shift) if multiplier else (0, 0)
        assert arithmetic.decompose_search(value, bits, lowest, highest) == expected

    @given(st.floats(2.0**-20, 100))
    def test_search_with_8_bits_has_an_error_below_one_percent(self, value: float) -> None:
        multiplier, shift = arithmetic.decompose_search(value, bits=8)
        assert abs(scaled(multiplier, shift) - Fraction(value)) < Fraction(value) / 100

    def test_search_refuses_what_no_shift_can_hold(self) -> None:
        with pytest.raises(ValueError, match="factor 200 needs a multiplier of more than 8 bits at shift 0"):
            arithmetic.decompose_search(200.0, bits=8, lowest_shift=0)
        assert arithmetic.decompose_search(200.0, bits=8) == (25, -3)
        assert arithmetic.decompose_search(1e-20) == (0, 0)

    @given(st.floats(1e-12, 127), st.sampled_from([127, 255]))
    def test_shift_to_max_uses_the_largest_shift_below_the_limit(self, value: float, limit: int) -> None:
        multiplier, shift = arithmetic.decompose_shift_to_max(value, limit)
        assert multiplier == math.floor(Fraction(value) * (1 << shift))
        assert multiplier <= limit
        assert Fraction(value) * (1 << (shift + 1)) >= limit
        if shift:
            assert Fraction(value) * (1 << shift) < limit

    def test_shift_to_max_at_its_ends(self) -> None:
        assert arithmetic.decompose_shift_to_max(1.0) == (64, 6)
        assert arithmetic.decompose_shift_to_max(300.0) == (127, 0)
        assert arithmetic.decompose_shift_to_max(1e-30) == (0, 0)

    def test_each_keeps_the_shape(self) -> None:
        factors = np.array([[0.1234], [0.0]])
        multipliers, shifts = arithmetic.decompose_each(factors)
        assert (multipliers.tolist(), shifts.tolist()) == ([[2119995857], [0]], [[34], [0]])
        multipliers, shifts = arithmetic.decompose_each(factors, partial(arithmetic.decompose_search, bits=8))
        assert (multipliers.tolist(), shifts.tolist()) == ([[63], [0]], [[9], [0]])
        assert arithmetic.decompose_each([])[0].shape == (0,)

    @each("value", [math.inf, math.nan])
    def test_factors_must_be_finite(self, value: float) -> None:
        for rule in (arithmetic.decompose_frexp31, arithmetic.decompose_search, arithmetic.decompose_shift_to_max):
            with pytest.raises(ValueError, match="a quantization factor must be finite"):
                rule(value)

    @settings(max_examples=50)
    @given(FACTOR, st.integers(-(1 << 24), 1 << 24))
    def test_a_decomposed_factor_requantizes_within_one(self, value: float, acc: int) -> None:
        multiplier, shift = arithmetic.decompose_frexp31(value)
        result = arithmetic.requantize(
            np.array([acc], np.int32), multiplier, shift, 0, Rounding.HALF_AWAY_FROM_ZERO, np.int32
        )
        assert abs(int(result[0]) - round(Fraction(value) * acc)) <= 1


class TestScales:
    def test_symmetric_divisors(self) -> None:
        assert arithmetic.symmetric_scale(6.4, signed=True) == 0.05
        assert arithmetic.symmetric_scale(254.0, signed=True, divisor=127) == 2.0
        assert arithmetic.symmetric_scale(12.75, signed=False) == 0.05
        assert arithmetic.symmetric_scale(1.0, signed=True, bits=4) == 1 / 8
        assert arithmetic.symmetric_scale(1.0, signed=True, divisor=127, bits=4) == 1 / 7
        assert arithmetic.symmetric_scale(1.0, signed=False, bits=4) == 1 / 15
        assert arithmetic.symmetric_scale(1.0, signed=True, divisor=127, bits=16) == 1 / 32767

    def test_asymmetric_numbers_of_the_seed(self) -> None:
        scale, zero_point = arithmetic.asymmetric_scale(-4.1780586, 4.4932480)
        assert scale == pytest.approx(0.0340051240, abs=1e-10)  # the seed computed it in float32
        assert zero_point == -5

    def test_asymmetric_range_contains_zero(self) -> None:
        assert arithmetic.asymmetric_scale(1.0, 255.0, signed=False) == (1.0, 0)
        assert arithmetic.asymmetric_scale(-255.0, -1.0, signed=False) == (1.0, 255)
        assert arithmetic.asymmetric_scale(2.0, 255.0) == (1.0, -128)
        assert arithmetic.asymmetric_scale(0.0, 0.0) == (1.0, 0)

    @given(st.floats(-1e6, 0), st.floats(1e-3, 1e6), st.booleans())
    def test_zero_is_represented_exactly_and_the_range_within_half_a_step(
        self, low: float, high: float, signed: bool
    ) -> None:
        scale, zero = arithmetic.asymmetric_scale(low, high, signed)
        lowest = -128 if signed else 0
        assert lowest <= zero <= lowest + 255
        assert (lowest - zero) * scale - low <= 0.5001 * scale
        assert high - (lowest + 255 - zero) * scale <= 0.5001 * scale
