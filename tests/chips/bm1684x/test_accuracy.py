"""int8 on labeled networks: right answers and signal to noise, against the float network."""

from __future__ import annotations

import pytest

from tests.models.accuracy import FLOORS, QUICK, Bench, parameters


@pytest.mark.parametrize("name", parameters(FLOORS, QUICK))
def test_int8_reaches_the_floor(name: str, bench: Bench) -> None:
    FLOORS[name].check(bench.measure(name, "bm1684x"))
