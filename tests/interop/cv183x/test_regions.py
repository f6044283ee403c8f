"""Regions that instructions state, by what the vendor's functional model touches."""

from __future__ import annotations

from functools import partial

import pytest
from tpuc_cv183x.chip import CV183X

from tests.chips.cv18.cases import generators, make_case
from tests.chips.cv18.draw import BASES
from tests.chips.cv18.oracle_runner import OracleRunner
from tests.chips.cv183x.test_regions import locate
from tests.chips.regions import wrong_regions

pytestmark = pytest.mark.interop
SEEDS = range(8000, 8010)


@pytest.mark.parametrize("name", generators(CV183X))
def test_regions_are_what_the_vendors_model_touches(runner: OracleRunner, name: str) -> None:
    for seed in SEEDS:
        case = make_case(name, seed, CV183X)
        lmem, gmem = runner.prepare(case)
        memories = {"lmem": lmem} | {f"gmem{base}": gmem[base : base + 1] for base in range(BASES)}
        wrong = wrong_regions(case.instruction, memories, locate, partial(runner.execute, case), seed)
        assert wrong is None, (seed, case.instruction.describe(), wrong)
