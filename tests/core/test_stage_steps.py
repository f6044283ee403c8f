"""Stored integers of two engines may differ by a step, whatever that is to the tolerance."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.errors import TpucError
from tpuc_driver.session.compare import compare

from tests.families import each

SCALE = 0.5


def stored(*integers: int) -> NDArray[np.float64]:
    """What they mean."""
    return np.array(integers) * SCALE


def test_one_step_is_no_difference() -> None:
    result = compare("a and b", {"q": stored(1, 2, 0)}, {"q": stored(2, 1, 0)}, (0.99, 0.99), steps={"q": SCALE})
    assert result.stored == 1
    assert result.text().endswith("1 of integers that differ by one step at most")


@each("steps", [{}, {"q": SCALE / 2}, {"other": SCALE}])
def test_more_than_a_step_is_judged_by_the_tolerance(steps: dict[str, float]) -> None:
    with pytest.raises(TpucError, match=r"below the tolerance of 0\.99, 0\.99"):
        compare("a and b", {"q": stored(1, 2, 0)}, {"q": stored(2, 1, 0)}, (0.99, 0.99), steps=steps)


def test_other_tensors_are_judged_as_ever() -> None:
    near = {"q": stored(1, 2, 0), "f": np.array([1.0, 0.0])}
    far = {"q": stored(2, 1, 0), "f": np.array([0.0, 1.0])}
    with pytest.raises(TpucError, match="lowest at 'f'"):
        compare("a and b", near, far, (0.5, 0.0), steps={"q": SCALE})


@each("size", [0.0, 1e-30, 1e-12, 5e-6])
def test_values_near_zero_are_judged_by_an_absolute_difference(size: float) -> None:
    ours, theirs = {"y": np.array([size, -size, size])}, {"y": np.array([-size, size / 2, 0])}
    result = compare("a and b", ours, theirs, (0.99, 0.99), near=(1e-5, 1e-3))
    assert result.close == (size != 0)
    if size:
        assert result.text().endswith(", 1 near zero, within 1e-05 + 0.001 * |reference|")
        with pytest.raises(TpucError, match=r"below the tolerance of 0\.99, 0\.99; examine"):
            compare("a and b", ours, theirs, (0.99, 0.99))


@each("wanted", [[0.0, 2e-5, 1.0], [1.0, -1.0, 1.0]])
def test_one_element_further_off_fails_with_the_tolerance_stated(wanted: list[float]) -> None:
    got = {"y": np.array([3e-5, 1.0, 1.0])}
    with pytest.raises(TpucError, match=r"of 0\.99, 0\.99, and beyond 1e-05 \+ 0\.001 \* \|reference\|; examine"):
        compare("a and b", got, {"y": np.array(wanted)}, (0.99, 0.99), near=(1e-5, 1e-3))
