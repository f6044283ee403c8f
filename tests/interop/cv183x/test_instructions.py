"""Thousands of random legal instructions: our simulator against the vendor's functional model, whole memories."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc_cv18.machine import Machine
from tpuc_cv183x.chip import CV183X

from tests.chips.cv18.cases import generators, make_case
from tests.chips.cv18.draw import BASES, WINDOW_BYTES
from tests.chips.cv18.oracle_runner import OracleRunner

CASES_PER_GENERATOR, QUICK = 60, 20
"""Of the instructions that the nightly run draws, the quick one takes the first few."""
FIRST_SEED = 5000

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("name", generators(CV183X))
def test_the_functional_model_leaves_the_same_memories(runner: OracleRunner, name: str, thorough: bool) -> None:
    machine = Machine(CV183X)
    for seed in range(FIRST_SEED, FIRST_SEED + (CASES_PER_GENERATOR if thorough else QUICK)):
        case = make_case(name, seed, CV183X)
        case.instruction.check()
        lmem, gmem = runner.run(case)
        case.load(machine)
        case.instruction.execute(machine)
        assert np.array_equal(lmem, machine.lmem[:, :WINDOW_BYTES]), (seed, case.instruction.describe())
        assert np.array_equal(gmem, np.stack(machine.gmem[:BASES])), (seed, case.instruction.describe())
