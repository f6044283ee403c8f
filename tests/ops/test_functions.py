"""Functions of one array against the C library."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tpuc_ops.functions import erf

from tests.families import each

RANDOM = np.random.default_rng(0)


@each(
    "x",
    [
        pytest.param(RANDOM.uniform(-5, 5, 100_000), id="where it bends"),
        pytest.param(10.0 ** RANDOM.uniform(-40, 1, 20_000), id="near zero"),
        pytest.param(np.array([3.9999, 4, 6, -6, math.inf, -math.inf, 0.0, -0.0, 1e-45]), id="ends"),
    ],
)
def test_erf_is_that_of_the_c_library(x: np.ndarray) -> None:
    x = x.astype(np.float32)
    expected = np.array([math.erf(one) for one in x.tolist()]).astype(np.float32)
    np.testing.assert_array_equal(erf(x).view(np.int32), expected.view(np.int32))


def test_erf_of_what_is_no_number_and_of_any_shape() -> None:
    assert np.isnan(erf(np.array([math.nan], np.float32))).all()
    rows = np.arange(40_000, dtype=np.float32).reshape(200, 200).T / 10_000
    np.testing.assert_array_equal(erf(rows), erf(np.ascontiguousarray(rows)))
    assert erf(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert erf(np.float32(0.5).reshape(())).shape == ()
