"""int8 and bf16 on labeled networks: right answers and signal to noise, against the float network."""

from __future__ import annotations

import pytest

from tests.models.accuracy import QUICK, Bench, Floor, parameters

# One count (0.01 of another score), or one dB, below what was measured when every value equalled the vendor's model.
# Sums of answers are rounded to bf16 here. For mobilenet_v2 see the floors of bm1684x. The floor of yolox was once a
# score of 0.463, more than the 0.453 of the float network: what is above that is chance. So is the order of nearly
# equal clips in ad01, 0.935 to 0.955 (float 0.9475) with errors of 39 to 42 dB, and lenet's output: see bm1684x.
FLOORS = {
    "mnist": Floor(197, 43.1),
    "ic01": Floor(160, 28.8, 33.3),
    "kws01": Floor(175, 23.5, 26.6),
    "vww01": Floor(170, 32.3, 28.0),
    "ad01": Floor(0.925, 41.3),
    "mobilenet_v1": Floor(33, 18.8, 20.5),
    "mobilenet_v2": Floor(54, 25.4, 21.1),
    "blazeface": Floor(38, 24.0),
    "ultraface": Floor(39, 42.1, 28.1),
    "yunet": Floor(39, 10.5),
    "yolox": Floor(0.438, 12.2),
    "squeezenet": Floor(38, 25.9),
    "lenet": Floor(197, 50.7, 43.1),
}
FLOATS = {
    "mobilenet_v1": Floor(33, 18.2, 20.6),
    "mobilenet_v2": Floor(53, 28.7, 20.6),
    "blazeface": Floor(39, 43.1),
    "ultraface": Floor(39, 48.9, 39.2),
    "yunet": Floor(38, 33.1),
    "yolox": Floor(0.44, 19.8),
}


@pytest.mark.parametrize("name", parameters(FLOORS, QUICK))
def test_int8_reaches_the_floor(name: str, bench: Bench) -> None:
    FLOORS[name].check(bench.measure(name, "cv183x"))


@pytest.mark.parametrize("name", parameters(FLOATS, ()))
def test_bf16_reaches_the_floor(name: str, bench: Bench) -> None:
    FLOATS[name].check(bench.measure(name, "cv183x", "bf16"))
