"""Similarity measures, against values computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tpuc.errors import TpucError
from tpuc.similarity import NothingToCompare, Similarity, compare, cosine, euclidean, sqnr_db

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


def test_comparing_nothing_is_an_error() -> None:
    with pytest.raises(NothingToCompare, match="the two sides have no tensor name in common"):
        compare({"a": X}, {"b": X})
    with pytest.raises(NothingToCompare, match="tensors without elements cannot be compared"):
        cosine(np.zeros(0), np.zeros(0))
    with pytest.raises(TpucError, match="tensors of 2 and 3 elements cannot be compared"):
        cosine(X, np.zeros(3))
