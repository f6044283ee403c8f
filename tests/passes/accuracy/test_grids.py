"""Values of any shape lie on their grid."""

from __future__ import annotations

import numpy as np
from tpuc_quantize.simulation.grids import Grid

from tests.families import each

GRID = Grid(0.5, -128, 127)


@each("shape", [(), (1,), (2, 3)])
def test_rounding_keeps_the_shape(shape: tuple[int, ...]) -> None:
    x = np.full(shape, 1.3, np.float32)
    got = GRID.round(x)
    assert (type(got), got.shape, got.dtype) == (np.ndarray, shape, np.float32)
    np.testing.assert_array_equal(got, np.full(shape, 1.5, np.float32))
    np.testing.assert_array_equal(x, np.full(shape, 1.3, np.float32))


def test_what_is_beyond_ends_at_the_last_place() -> None:
    got = GRID.round(np.array([-100.0, 100.0, 63.4], np.float32))
    np.testing.assert_array_equal(got, np.array([-64.0, 63.5, 63.5], np.float32))
