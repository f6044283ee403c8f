"""Threshold methods against worked numbers, closed forms of known distributions and a literal model of the rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tpuc.api import Calibrator, TensorStatistics
from tpuc_quantize.observers.histogram import Histogram, Statistics
from tpuc_quantize.ranges import estimators as methods

ALL: list[Calibrator] = [
    methods.Max(),
    methods.Kld(),
    methods.Percentile(),
    methods.Mse(),
    methods.AciqGauss(),
    methods.AciqLaplace(),
    methods.Entropy(),
    methods.Cosine(),
]
each = pytest.mark.parametrize("method", ALL, ids=lambda method: method.name)


@dataclass(frozen=True)
class Given:
    """Statistics made by hand."""

    counts: NDArray[np.int64]
    absmax: float
    minimum: float = -1.0
    maximum: float = 1.0
    zeros: int = 0
    depth: float = 0.0


def histogram(values: NDArray[Any]) -> Statistics:
    result = Histogram()
    result.update(values)
    return result.statistics()


@pytest.fixture(scope="module")
def normal() -> NDArray[np.float32]:
    return np.random.default_rng(1).standard_normal(200_000).astype(np.float32)


@pytest.fixture(scope="module")
def laplace() -> NDArray[np.float32]:
    return np.random.default_rng(2).laplace(size=2_000_000).astype(np.float32)


class TestKld:
    def test_normal_values_are_not_clipped(self, normal: NDArray[np.float32]) -> None:
        # the formula gives absmax * 2048.5 / 2048, which is capped
        assert methods.Kld().threshold(histogram(normal)) == float(np.abs(normal).max())

    def test_one_outlier_is_clipped_at_the_first_candidate(self, normal: NDArray[np.float32]) -> None:
        statistics = histogram(np.append(normal, np.float32(100.0)))
        assert methods.Kld().threshold(statistics) == 128.5 * 100 / 2048 == 6.2744140625
        assert methods.Max().threshold(statistics) == 100.0

    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.integers(0, 50), min_size=5, max_size=24).filter(any))
    def test_equals_the_rule_written_out(self, counts: list[int]) -> None:
        levels, absmax = 4, 3.0
        padded = counts + [0] * (-len(counts) % levels)
        best, lowest = 0, math.inf
        for i in range(levels, len(padded) + 1, levels):
            p = padded[:i]
            p[-1] += sum(padded[i:])
            q: list[float] = []
            for level in range(levels):
                cell = padded[level * i // levels : (level + 1) * i // levels]
                filled = sum(1 for n in cell if n)
                q += [sum(cell) / filled if n else 0.0 for n in cell]
            divergence = math.inf
            if sum(q):
                divergence = math.fsum(
                    a / sum(p) * math.log(a / sum(p) / max(b / sum(q), 1e-30)) for a, b in zip(p, q, strict=True) if a
                )
            if divergence < lowest - 1e-12:
                best, lowest = i, divergence
        result = methods.Kld(levels=levels).threshold(Given(np.array(counts), absmax))
        assert result == min((best + 0.5) * absmax / len(counts), absmax)

    def test_exact_zeros_do_not_count(self, normal: NDArray[np.float32]) -> None:
        sparse = np.concatenate([normal, np.zeros(1_000_000, np.float32)])
        assert methods.Kld().threshold(histogram(sparse)) == float(np.abs(normal).max())


def test_percentile_is_the_border_below_which_so_many_values_lie() -> None:
    statistics = Given(np.ones(10_000, np.int64), 10_000.0)
    assert methods.Percentile(99.99).threshold(statistics) == 9999.0
    assert methods.Percentile(50.0).threshold(statistics) == 5000.0
    assert methods.Percentile(100.0).threshold(statistics) == 10_000.0


def test_percentile_clips_one_outlier(normal: NDArray[np.float32]) -> None:
    expected = float(np.percentile(np.abs(normal), 99.99))
    result = methods.Percentile().threshold(histogram(np.append(normal, np.float32(100.0))))
    assert result == pytest.approx(expected, abs=100 / 2048)  # one bin


class TestBestClipping:
    """The constants of ACIQ are the best 8-bit clipping of unit distributions; three ways must lead to them."""

    def test_gauss(self, normal: NDArray[np.float32]) -> None:
        statistics = histogram(2 * normal)
        assert methods.AciqGauss().threshold(statistics) == pytest.approx(2 * 3.92403337, rel=0.005)  # sampling error
        assert methods.Mse().threshold(statistics) == pytest.approx(2 * 3.92403337, rel=0.02)
        assert methods.Cosine().threshold(statistics) == pytest.approx(2 * 3.92403337, rel=0.02)

    def test_laplace(self, laplace: NDArray[np.float32]) -> None:
        statistics = histogram(laplace)
        assert methods.AciqLaplace().threshold(statistics) == pytest.approx(9.89675982, rel=0.005)
        assert methods.Mse().threshold(statistics) == pytest.approx(9.89675982, rel=0.03)
        assert methods.Cosine().threshold(statistics) == pytest.approx(9.89675982, rel=0.03)

    @pytest.mark.parametrize("unsigned", [False, True])
    def test_mse_beats_its_neighbors_when_values_are_really_quantized(
        self, normal: NDArray[np.float32], unsigned: bool
    ) -> None:
        values = np.abs(normal) if unsigned else normal
        levels, lowest = (256, 0) if unsigned else (128, -128)

        def error(threshold: float) -> float:
            step = threshold / levels
            return float(np.mean((np.clip(np.rint(values / step), lowest, levels - 1) * step - values) ** 2))

        best = methods.Mse().threshold(histogram(values))
        assert error(best) < error(best * 0.9)
        assert error(best) < error(best * 1.1)


def test_entropy_clips_an_outlier_but_not_a_normal_tail(normal: NDArray[np.float32]) -> None:
    absmax = float(np.abs(normal).max())
    assert methods.Entropy().threshold(histogram(normal)) > 0.9 * absmax
    clipped = methods.Entropy().threshold(histogram(np.append(normal, np.float32(100.0))))
    assert 0.9 * absmax < clipped < 0.1 * 100


def chosen(method: Calibrator, statistics: TensorStatistics) -> float:
    return methods.limited_threshold(method.threshold(statistics), statistics)


@each
def test_method_keeps_the_promises_of_a_calibrator(method: Calibrator, normal: NDArray[np.float32]) -> None:
    assert method.api_version == 1
    statistics = histogram(normal)
    assert 0 < chosen(method, statistics) <= statistics.absmax
    scaled = histogram(normal * np.float32(4))
    # a power of two scales every step of the computation exactly, but for Newton's absolute tolerance
    assert method.threshold(scaled) == pytest.approx(4 * method.threshold(statistics), rel=1e-6)


@each
def test_zero_tensor_gets_a_usable_threshold(method: Calibrator) -> None:
    assert chosen(method, histogram(np.zeros(10, np.float32))) == 1e-5


@each
@pytest.mark.parametrize("values", [[3.0], [-3.0, 0.0, 0.0], [1e-3, 3.0]])
def test_few_values(method: Calibrator, values: list[float]) -> None:
    assert 0 < chosen(method, histogram(np.array(values, np.float32))) <= 3.0


def test_only_max_can_do_without_histogram() -> None:
    assert [method.name for method in ALL if not method.needs_histogram] == ["max"]
    assert methods.Max().threshold(Given(np.zeros(4, np.int64), 2.5)) == 2.5
