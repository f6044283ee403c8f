"""Regions that instructions state, by what the vendor's functional model touches."""

from __future__ import annotations

from functools import partial

import pytest

from tests.chips.bm1684x.cases import GENERATORS, make_case
from tests.chips.bm1684x.draw import WINDOW_BYTES
from tests.chips.bm1684x.oracle_runner import OracleRunner
from tests.chips.bm1684x.test_regions import locate
from tests.chips.regions import wrong_regions

pytestmark = pytest.mark.interop
SEEDS = range(8000, 8006)


@pytest.mark.parametrize("name", GENERATORS)
def test_regions_are_what_the_vendors_model_touches(runner: OracleRunner, name: str) -> None:
    memories = {"lmem": runner.oracle.lmem[:, :WINDOW_BYTES], "ddr": runner.oracle.ddr[None]}
    for seed in SEEDS:
        case = make_case(name, seed)
        runner.prepare(case, WINDOW_BYTES)
        wrong = wrong_regions(case.instruction, memories, locate, partial(runner.execute, case), seed)
        assert wrong is None, (seed, case.instruction.describe(), wrong)
