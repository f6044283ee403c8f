"""Statistics against numpy on whole arrays: streaming, merging and block borders must not show."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tpuc.api import CalibrationError
from tpuc_passes.calibration.statistics import Histogram, TensorRange

ARRAYS = hnp.arrays(np.float32, hnp.array_shapes(max_dims=3), elements=st.floats(-100, 100, width=32))


def seen(*arrays: np.ndarray) -> TensorRange:
    result = TensorRange("conv1")
    for array in arrays:
        result.update(array)
    return result


def counted(arrays: list[np.ndarray], bins: int = 2048) -> Histogram:
    result = Histogram(seen(*arrays), bins)
    for array in arrays:
        result.update(array)
    return result


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

    @pytest.mark.parametrize(("value", "kind"), [(np.nan, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite")])
    def test_refuses_values_that_are_not_finite(self, value: float, kind: str) -> None:
        with pytest.raises(CalibrationError, match=rf"conv1: {kind}.* during calibration\. Check the weights"):
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

    @given(st.lists(ARRAYS, min_size=2, max_size=4), st.integers(0, 4))
    def test_merging_parts_equals_counting_everything(self, arrays: list[np.ndarray], cut: int) -> None:
        whole = counted(arrays)
        first, second = Histogram(seen(*arrays)), Histogram(seen(*arrays))
        for part, chosen in ((first, arrays[:cut]), (second, arrays[cut:])):
            for array in chosen:
                part.update(array)
        second.merge(first)
        np.testing.assert_array_equal(second.counts, whole.counts)
        assert second.zeros == whole.zeros

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int32, np.uint8])
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

    def test_values_beyond_the_first_pass_go_to_the_last_bin(self) -> None:
        result = Histogram(seen(np.array([1.0])), 4)
        result.update(np.array([7.0, -0.1]))
        assert result.counts.tolist() == [1, 0, 0, 1]

    def test_refuses_to_merge_different_ranges(self) -> None:
        one, other = Histogram(seen(np.array([1.0]))), Histogram(seen(np.array([2.0])))
        with pytest.raises(
            CalibrationError, match="histograms of 2048 bins up to 1 and of 2048 bins up to 2 cannot be merged"
        ):
            one.merge(other)
