"""Similarity measures, against values computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tpuc.errors import TpucError
from tpuc_driver.similarity import (
    NothingToCompare,
    Similarity,
    compare,
    cosine,
    decibels,
    euclidean,
    similarity,
    sqnr_db,
)

from tests.families import each

X = np.array([3.0, 4.0])


def test_equal_tensors_are_perfect() -> None:
    assert compare({"a": X}, {"a": X}) == {"a": Similarity(1.0, 1.0, math.inf)}


def test_measures_of_a_small_case() -> None:
    y = np.array([4.0, 3.0])
    assert cosine(X, y) == pytest.approx(24 / 25)
    assert euclidean(X, y) == pytest.approx(1 - math.sqrt(2) / math.sqrt(24.5))
    assert sqnr_db(X, y) == pytest.approx(10 * math.log10(25 / 2))


def test_integers_do_not_overflow() -> None:
    a, b = np.full(1000, 127, np.int8), np.full(1000, -127, np.int8)
    assert cosine(a, b) == pytest.approx(-1.0)
    assert euclidean(a, b) == -math.inf


def test_zero_tensors() -> None:
    zero = np.zeros(2)
    assert (cosine(zero, zero), euclidean(zero, zero)) == (1.0, 1.0)
    assert (cosine(zero, X), euclidean(zero, X), sqnr_db(X, zero)) == (0.0, -1.0, -math.inf)


def test_equal_infinities_agree_and_all_else_that_is_no_number_is_like_nothing() -> None:
    inf, nan = math.inf, math.nan
    masked = np.array([-inf, 3.0, 4.0], np.float32)
    assert similarity(masked, masked) == Similarity(1.0, 1.0, inf)
    assert cosine(masked, np.array([-inf, 4.0, 3.0])) == pytest.approx(24 / 25)
    assert euclidean(masked, np.array([-inf, 4.0, 3.0])) == pytest.approx(1 - math.sqrt(2) / math.sqrt(24.5))
    ones = np.ones(3)
    for bad in ([inf, inf, inf], [-inf, 1, 1], [nan, nan, nan], [1, nan, 1]):
        for pair in ((np.array(bad), ones), (ones, np.array(bad))):
            assert similarity(*pair) == Similarity(0.0, -inf, -inf)
    assert similarity(np.array([nan]), np.array([nan])) == Similarity(0.0, -inf, -inf)
    assert similarity(np.array([inf]), np.array([-inf])) == Similarity(0.0, -inf, -inf)


@each("exponent", [-1070, -500, 0, 500, 1020])
def test_huge_and_tiny_numbers_have_the_figures_of_others(exponent: int) -> None:
    x, y = np.ldexp(X, exponent), np.ldexp(np.array([4.0, 3.0]), exponent)
    assert cosine(x, y) == pytest.approx(24 / 25)
    assert euclidean(x, y) == pytest.approx(1 - math.sqrt(2) / math.sqrt(24.5))
    assert sqnr_db(x, y) == pytest.approx(10 * math.log10(25 / 2))
    assert cosine(x, X) == pytest.approx(1.0)


def test_ratios_of_powers() -> None:
    inf = math.inf
    assert [decibels(*pair) for pair in ((100, 1), (1, 0), (0, 0), (0, 1))] == [20.0, inf, inf, -inf]
    assert [decibels(*pair) for pair in ((1, inf), (inf, 1), (math.nan, 1), (1, math.nan))] == [-inf] * 4
    assert decibels(1e-300, 1e300) == pytest.approx(-6000)
    assert decibels(1e300, 1e-300) == pytest.approx(6000)


def test_comparing_nothing_is_an_error() -> None:
    with pytest.raises(NothingToCompare, match="the two sides have no tensor name in common"):
        compare({"a": X}, {"b": X})
    with pytest.raises(NothingToCompare, match="tensors without elements cannot be compared"):
        cosine(np.zeros(0), np.zeros(0))
    with pytest.raises(TpucError, match="tensors of 2 and 3 elements cannot be compared"):
        cosine(X, np.zeros(3))
