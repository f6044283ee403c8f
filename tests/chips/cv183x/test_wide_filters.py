"""Filters of nine bits as sums of bytes."""

from __future__ import annotations

import numpy as np
from tpuc_cv18.lowerings.wide_filters import byte_count, some_split, split

from tests.families import each


@each(("low", "high", "count"), [(-128, 127, 1), (-129, 100, 2), (-90, 165, 2), (0, 255, 3)])
def test_parts_are_bytes_that_add_up(low: int, high: int, count: int) -> None:
    filters = np.random.default_rng(0).integers(low, high, (5, 7, 3, 2), endpoint=True).astype(np.float32)
    filters[0, 0, 0], filters[0, 1, 0] = low, high
    assert byte_count(filters) == count
    parts = np.split(split(filters, count, 1), count, 1)
    for part in parts:
        np.testing.assert_array_equal(part, part.astype(np.int8))
    np.testing.assert_array_equal(sum(parts), filters)


def test_only_channels_beyond_bytes_have_parts() -> None:
    filters = np.random.default_rng(0).integers(-128, 127, (5, 7, 3, 2), endpoint=True).astype(np.float32)
    filters[3, 2, 1, 0], filters[0, 6, 0, 1] = 200, -155
    operand = np.random.default_rng(1).integers(0, 255, (7, 3, 2), endpoint=True)
    channels = np.array([2, 6])
    parts = some_split(filters, 2, channels)
    assert parts.shape == (5, 9, 3, 2)
    np.testing.assert_array_equal(parts, parts.astype(np.int8))
    sums = np.tensordot(parts, np.concatenate([operand, operand[channels]]), 3)
    np.testing.assert_array_equal(sums, np.tensordot(filters, operand, 3))
