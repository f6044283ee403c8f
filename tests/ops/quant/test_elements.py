"""How calibrated values are stored with a zero point."""

from __future__ import annotations

import pytest
from tpuc.api import F32, Calibrated, CalibrationError, TensorType
from tpuc_ops.quant.elements import asymmetric_element

from tests.families import each


def element(low: float, high: float) -> tuple[float, int]:
    uniform = asymmetric_element(TensorType((1,), Calibrated(F32, low, high)), "x")
    assert uniform.storage.name == "i8"
    return uniform.scale, uniform.zero_point


def test_the_published_example() -> None:
    scale, zero_point = element(-4.1780586242675781, 4.4932479858398437)
    assert scale == pytest.approx(0.034005123961205579, rel=1e-7)
    assert zero_point == -5


@each(
    ("low", "high", "scale", "zero_point"),
    [
        (0.0, 2.55, 0.01, -128),
        (1.0, 2.55, 0.01, -128),  # 0 is always inside
        (-2.55, 0.0, 0.01, 127),
        (-2.55, -1.0, 0.01, 127),
        (-1.28, 1.27, 0.01, 0),
        (0.0, 0.0, 1e-5 / 255, -128),
    ],
)
def test_ranges_contain_zero(low: float, high: float, scale: float, zero_point: int) -> None:
    found = element(low, high)
    assert found[0] == pytest.approx(scale, rel=1e-12)
    assert found[1] == zero_point


def test_a_value_without_calibration_is_named() -> None:
    with pytest.raises(CalibrationError, match="value 'x' has no calibration"):
        asymmetric_element(TensorType((1,), F32), "x")
