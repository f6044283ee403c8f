"""Confidence intervals beside published ones, and how many samples a share takes."""

from __future__ import annotations

import pytest
from tpuc_driver.confidence import samples_needed, share_interval, whole_interval

PUBLISHED = {
    (81, 263): (0.2553, 0.3662),
    (15, 148): (0.0624, 0.1605),
    (0, 20): (0.0, 0.1611),
    (1, 29): (0.0061, 0.1718),
}
"""R. G. Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17, 1998, table I,
method 3.
"""


def test_wilson_intervals_are_the_published_ones() -> None:
    for (same, count), wanted in PUBLISHED.items():
        assert share_interval(same / count, count) == pytest.approx(wanted, abs=5e-5)
    assert share_interval(0.5, 0) == (0.0, 1.0)
    assert share_interval(0.9, 10).text() == "95% interval 59.6% to 98.2%"


def test_an_expected_share_between_two_whole_numbers_has_the_outer_ends_of_both() -> None:
    low, high = whole_interval(15.4 / 148, 148)
    assert low == pytest.approx(0.0624, abs=5e-5)
    assert high == share_interval(16 / 148, 148).high
    assert whole_interval(15 / 148, 148) == share_interval(15 / 148, 148)


def test_so_many_samples_that_all_agree_show_a_share_and_one_less_does_not() -> None:
    for share in (0.5, 0.9, 0.95, 0.98, 0.99, 0.999):
        needed = samples_needed(share)
        assert needed is not None
        assert share_interval(1.0, needed).low >= share > share_interval(1.0, needed - 1).low
    assert samples_needed(1.0) is None
