"""int8 and bf16 on labelled networks: right answers and signal to noise, against the float network."""

from __future__ import annotations

import pytest

from tests.models.accuracy import FLOORS, QUICK, Bench, Floor, parameters

LOSS_DB = 2.0
"""What this chip's short multipliers may cost beside bm1684x; and one answer."""

# One count, or one dB, below what was measured when every value equalled the vendor's model.
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
    FLOORS[name].less(LOSS_DB).check(bench.measure(name, "cv183x"))


@pytest.mark.parametrize("name", parameters(FLOATS, ()))
def test_bf16_reaches_the_floor(name: str, bench: Bench) -> None:
    FLOATS[name].check(bench.measure(name, "cv183x", "bf16"))
