"""Statistics against numpy on whole arrays: streaming, merging and block borders must not show."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tpuc.api import CalibrationError
from tpuc_quantize.observers.collector import Counting
from tpuc_quantize.observers.histogram import FINER, CountingBuffers, Histogram, Statistics, TensorRange

from tests.families import each

# Against 100, denormal numbers are zeros.
ELEMENTS = st.floats(-100, 100, width=32, allow_subnormal=False)
ARRAYS = hnp.arrays(np.float32, hnp.array_shapes(max_dims=3), elements=ELEMENTS)


def seen(*arrays: np.ndarray) -> TensorRange:
    result = TensorRange("conv1")
    for array in arrays:
        result.update(array)
    return result


def histogram(arrays: list[np.ndarray], bins: int = 2048) -> Histogram:
    result = Histogram("conv1", bins)
    for array in arrays:
        result.update(array)
    return result


def counted(arrays: list[np.ndarray], bins: int = 2048) -> Statistics:
    return histogram(arrays, bins).statistics()


class TestTensorRange:
    @given(st.lists(ARRAYS, min_size=1, max_size=4))
    def test_is_the_range_of_all_samples_together(self, arrays: list[np.ndarray]) -> None:
        everything = np.concatenate([a.reshape(-1) for a in arrays])
        result = seen(*arrays)
        assert (result.minimum, result.maximum) == (everything.min(), everything.max())
        assert result.absmax == np.abs(everything).max()

    @given(st.lists(ARRAYS, min_size=2, max_size=4), st.integers(0, 4))
    def test_merging_parts_equals_seeing_everything(self, arrays: list[np.ndarray], cut: int) -> None:
        first, second = seen(*arrays[:cut]), seen(*arrays[cut:])
        first.merge(second)
        whole = seen(*arrays)
        assert (first.minimum, first.maximum) == (whole.minimum, whole.maximum)

    def test_of_nothing_is_zero(self) -> None:
        result = seen(np.zeros((0, 3), np.float32))
        assert (result.minimum, result.maximum, result.absmax) == (0.0, 0.0, 0.0)

    def test_integers_at_the_end_of_their_type(self) -> None:
        assert seen(np.array([-128, 5], np.int8)).absmax == 128.0

    @each(("value", "kind"), [(np.nan, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite")])
    def test_refuses_values_that_are_not_finite(self, value: float, kind: str) -> None:
        with pytest.raises(CalibrationError, match=rf"conv1: {kind}.* during calibration: the float network computes"):
            seen(np.array([1.0, value], np.float32))


class TestHistogram:
    def test_equals_numpy_where_no_value_lies_on_a_border(self) -> None:
        # absmax is a power of two, so the scale is exact; values lie in the middle of 1/4 bins
        rng = np.random.default_rng(0)
        x = ((rng.integers(-8192, 8192, (3, 50001)) + 0.5) / 2048).astype(np.float32)
        x[0, 0] = -4.0
        expected, _ = np.histogram(np.abs(x), 2048, (0, 4))
        result = counted([x])
        np.testing.assert_array_equal(result.counts, expected)
        assert result.zeros == 0

    def test_upper_border_belongs_to_the_bin_and_zeros_are_apart(self) -> None:
        result = counted([np.array([0.0, -0.0, 0.25, -0.5, 0.51, 1.0, -2.0], np.float32)], bins=8)
        assert result.zeros == 2
        assert result.counts.tolist() == [1, 1, 1, 1, 0, 0, 0, 1]

    @given(st.lists(ARRAYS, min_size=1, max_size=4))
    def test_counts_every_value_once(self, arrays: list[np.ndarray]) -> None:
        result = counted(arrays)
        assert int(result.counts.sum()) == sum(int(np.count_nonzero(a)) for a in arrays)
        assert int(result.counts.sum()) + result.zeros == sum(a.size for a in arrays)

    @given(st.lists(ARRAYS, min_size=2, max_size=4), st.permutations(range(4)), st.integers(0, 4), st.integers(1, 9))
    def test_neither_order_nor_parts_matter(
        self, arrays: list[np.ndarray], order: list[int], cut: int, bins: int
    ) -> None:
        whole = histogram(arrays, bins)
        mixed = [arrays[place] for place in order if place < len(arrays)]
        first, second = histogram(mixed[:cut], bins), histogram(mixed[cut:], bins)
        second.merge(first)
        np.testing.assert_array_equal(second.all_counts, whole.all_counts)
        np.testing.assert_array_equal(second.statistics().counts, whole.statistics().counts)

    @given(st.lists(ARRAYS.filter(lambda array: array.size), min_size=1, max_size=4), st.integers(1, 9))
    def test_fine_bins_are_those_of_the_next_power_of_two(self, arrays: list[np.ndarray], bins: int) -> None:
        everything = np.abs(np.concatenate([array.reshape(-1) for array in arrays])).astype(np.float64)
        power = max([2.0**-64, *(2.0**e for e in range(-64, 8) if 2.0 ** (e - 1) < everything.max())])
        edges = np.arange(FINER * bins + 1) * (power / (FINER * bins))
        expected = [np.sum((everything > low) & (everything <= high)) for low, high in itertools.pairwise(edges)]
        result = histogram(arrays, bins).all_counts
        if bins & (bins - 1):  # the edges are no floats: values beside them may lie on either side
            assert int(result[1:].sum()) == np.count_nonzero(everything)
        else:
            assert result.tolist() == [np.sum(everything == 0), *expected]

    def test_every_element_of_a_large_value_is_counted(self) -> None:
        array = np.random.default_rng(0).normal(0, 1, (2, 300, 1000)).astype(np.float32)
        into: dict[str, Histogram] = {}
        Counting(64).see(into, "x", array, CountingBuffers(64))
        np.testing.assert_array_equal(into["x"].all_counts, histogram([array], 64).all_counts)
        assert into["x"].all_counts.sum() == array.size

    def test_fine_bins_are_shared_out_evenly(self) -> None:
        # 2 bins from 8 up to 4, absmax 3: of the six below it, the first three are the first bin
        x = np.array([0.25, 0.75, 0.75, 1.25, 1.75, 2.25, 3.0], np.float32)
        assert counted([x], bins=2).counts.tolist() == [4, 3]
        # 3 bins from 12 up to 4, absmax 2.5: edges at 2.5 and 5 of 7.5 fine bins; half of the third goes either way
        y = np.array([0.9, 0.9, 0.9, 0.9, 2.5], np.float32)
        assert counted([y], bins=3).counts.tolist() == [2, 2, 1]

    @each("spread", [1.0, 1.3, 1.9])
    def test_close_to_exact_bins_up_to_absmax(self, spread: float) -> None:
        x = np.random.default_rng(3).standard_normal((8, 40_000)).astype(np.float32) * np.float32(spread)
        exact, _ = np.histogram(np.abs(x), 256, (0, np.abs(x).max()))
        result = counted(list(x), 256).counts
        # Values lie wrong only within the fine bin of each edge, a quarter to half of a bin. There they are as good as
        # evenly spread, so how many do is binomial: six sigmas of it.
        off = np.abs(np.cumsum(result) - np.cumsum(exact))
        assert np.all(off <= 6 * np.sqrt(exact / 8) + 1)

    def test_ranges_only(self) -> None:
        result = Histogram("conv1", 8, counting=False)
        result.update(np.array([1.0, -3.0]))
        assert (result.statistics().minimum, result.statistics().absmax) == (-3.0, 3.0)
        assert not result.statistics().counts.any()

    @each("dtype", [np.float16, np.float32, np.float64, np.int8, np.int32, np.uint8])
    def test_any_element_type_and_any_strides(self, dtype: type[np.generic]) -> None:
        x = np.array([[1, 2], [2, 4], [0, 100]], dtype)[::-1, ::-1]
        result = counted([x], bins=10)
        assert (result.zeros, result.counts.tolist()) == (1, [4, 0, 0, 0, 0, 0, 0, 0, 0, 1])

    def test_lowest_integer_counts_as_its_absolute_value(self) -> None:
        assert counted([np.array([-128, 64], np.int8)], bins=2).counts.tolist() == [1, 1]

    def test_all_zero_tensor(self) -> None:
        result = counted([np.zeros((2, 3), np.float32)])
        assert (result.zeros, int(result.counts.sum()), result.absmax) == (6, 0, 0.0)

    def test_denormal_range_does_not_overflow(self) -> None:
        result = counted([np.array([1e-42, -1e-43, 0.0], np.float32)])
        assert (int(result.counts.sum()), result.zeros) == (2, 1)

    def test_of_values_that_are_not_finite_nothing_is_counted(self) -> None:
        result = histogram([np.ones(3, np.float32)])
        with pytest.raises(CalibrationError, match="conv1: NaN"):
            result.update(np.array([1.0, np.nan], np.float32))
        assert int(result.all_counts.sum()) == 3

    def test_mean_square_of_the_middles_of_bins(self) -> None:
        assert counted([np.array([0.0, 1.0, -2.0, 4.0], np.float32)], bins=4).mean_square == (0.25 + 2.25 + 12.25) / 4


class TestWholeNumbers:
    @each(
        ("values", "expected"),
        [([0, 16, 5], True), ([-3, 255], True), ([0, 256], False), ([0.0, 0.0], False), ([1, 2.5], False)],
    )
    def test_few_whole_numbers_count_things(self, values: list[float], *, expected: bool) -> None:
        histogram = Histogram("x")
        histogram.update(np.array(values, np.float32))
        assert histogram.is_categorical == expected

    def test_one_other_number_in_any_part_is_enough(self) -> None:
        parts = [Histogram("x"), Histogram("x")]
        for part, last in zip(parts, (7.0, 7.5), strict=True):
            part.update(np.append(np.zeros(5000), last).astype(np.float32))
        assert parts[0].is_categorical
        parts[0].merge(parts[1])
        assert not parts[0].is_categorical
        parts[0].update(np.ones(3, np.float32))
        assert not parts[0].is_categorical
