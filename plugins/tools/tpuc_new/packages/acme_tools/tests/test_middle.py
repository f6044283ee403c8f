"""The preset scales gray pixels to -1 .. 1 and cuts out the middle half."""

from __future__ import annotations

from acme_tools.middle import MIDDLE


def test_pixels_go_from_minus_one_to_one() -> None:
    (mean,), (scale,) = MIDDLE.said["mean"], MIDDLE.said["scale"]
    assert ((0 - mean) * scale, (255 - mean) * scale) == (-1.0, 1.0)
    assert MIDDLE.said["crop"] == 0.5
