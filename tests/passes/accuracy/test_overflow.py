"""Figures of layers that overflow or give NaN in the quantized network."""

from __future__ import annotations

import math

import numpy as np
from tpuc_accuracy.analysis.layer_errors import LayerError
from tpuc_accuracy.mixed_precision.sensitivity import Score, score

from tests.families import each

EXACT = np.array([3.0, 4.0], np.float32)


@each("got", [[math.nan, 4.0], [math.inf, 4.0], [3.0, -math.inf]])
def test_a_layer_that_overflows_is_like_nothing(got: list[float]) -> None:
    error = LayerError("a", "top.Add")
    for one in (EXACT, np.array(got, np.float32), EXACT):
        error.see(EXACT, one)
    assert (error.cosine, error.euclidean, error.noise) == (0.0, -math.inf, math.inf)
    found = score({"y": np.array(got, np.float32)}, {"y": EXACT})
    assert (found.cosine, found.sqnr_db) == (0.0, -math.inf)
    assert (found + score({"y": EXACT}, {"y": EXACT})).sqnr_db == -math.inf


def test_the_same_infinity_on_both_sides_adds_no_error() -> None:
    masked = np.array([-math.inf, 3.0, 4.0], np.float32)
    error = LayerError("a", "top.Add")
    error.see(masked, masked)
    assert (error.cosine, error.euclidean, error.noise) == (1.0, 1.0, 0.0)
    assert score({"y": masked}, {"y": masked}) == Score(1.0, 1, 25.0, 0.0)
