"""Random legal instructions of each chip: our simulator against the vendor's functional model, whole memories."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_cv18.isa import Target
from tpuc_cv18.machine import Machine

from tests.chips.cv18.cases import generators, make_case
from tests.chips.cv18.draw import BASES, WINDOW_BYTES
from tests.chips.cv18.oracle_runner import OracleRunner
from tests.chips.cv18xx import NAMES, TARGETS

CASES_PER_GENERATOR, QUICK = 20, 8
"""Of the instructions that the nightly run draws, the quick one takes the first few."""
FIRST_SEED = 5000

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
def test_the_functional_model_leaves_the_same_memories(target: Target, thorough: bool, oracle_dir: Path) -> None:
    machine = Machine(target)
    with OracleRunner(oracle_dir, target) as runner:
        for name in generators(target):
            for seed in range(FIRST_SEED, FIRST_SEED + (CASES_PER_GENERATOR if thorough else QUICK)):
                case = make_case(name, seed, target)
                case.instruction.check()
                lmem, gmem = runner.run(case)
                case.load(machine)
                case.instruction.execute(machine)
                what = (name, seed, case.instruction.describe())
                assert np.array_equal(lmem, machine.lmem[:, :WINDOW_BYTES]), what
                assert np.array_equal(gmem, np.stack(machine.gmem[:BASES])), what
