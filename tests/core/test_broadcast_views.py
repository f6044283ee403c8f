"""How operands of any shapes become n, c, h, w beside each other."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import broadcast_views

from tests.families import each


@each(
    ("operands", "result", "views"),
    [
        ([(2, 3, 4, 5), (3, 1, 1)], (2, 3, 4, 5), [(2, 3, 4, 5), (1, 3, 1, 1), (2, 3, 4, 5)]),
        ([(1, 3, 4, 5, 6), (1, 3, 4, 1, 1)], (1, 3, 4, 5, 6), [(1, 3, 4, 30), (1, 3, 4, 1), (1, 3, 4, 30)]),
        ([(1, 3, 24, 24, 2), (1, 3, 1, 1, 2)], (1, 3, 24, 24, 2), [(1, 3, 576, 2), (1, 3, 1, 2), (1, 3, 576, 2)]),
        ([(1, 1, 9, 9, 2), (4,) + (1,) * 5], (4, 1, 1, 9, 9, 2), [(1, 1, 1, 162), (4, 1, 1, 1), (4, 1, 1, 162)]),
        ([(1, 2, 3, 4, 5), (5,)], (1, 2, 3, 4, 5), [(1, 24, 1, 5), (1, 1, 1, 5), (1, 24, 1, 5)]),
    ],
)
def test_views(operands: list[tuple[int, ...]], result: tuple[int, ...], views: list[tuple[int, ...]]) -> None:
    assert list(broadcast_views(operands, result)) == views


@given(st.data())
def test_broadcasting_the_views_is_broadcasting_the_shapes(data: st.DataObject) -> None:
    result = tuple(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=7)))
    operands = [tuple(data.draw(st.sampled_from((1, extent))) for extent in result) for _ in range(2)]
    *views, whole = broadcast_views(operands, result)
    assert math.prod(whole) == math.prod(result)
    if any(own not in (1, extent) for view in views for own, extent in zip(view, whole, strict=True)):
        return  # more than four dimensions cannot be merged to four
    for shape, view in zip(operands, views, strict=True):
        array = np.arange(math.prod(shape))
        wanted = np.broadcast_to(array.reshape(shape), result).ravel()
        np.testing.assert_array_equal(np.broadcast_to(array.reshape(view), whole).ravel(), wanted)
