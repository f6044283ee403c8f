"""Thousands of random legal instructions: our simulator against the vendor's functional model, whole memories."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc_bm1684x.machine import Machine

from tests.chips.bm1684x.cases import FLOAT_GENERATORS, GENERATORS, make_case
from tests.chips.bm1684x.draw import WINDOW_BYTES, Case, differences
from tests.chips.bm1684x.oracle_runner import DDR_BYTES, OracleRunner

CASES_PER_GENERATOR, QUICK = 150, 40
"""Of the instructions that the nightly run draws, the quick one takes the first few."""
FIRST_SEED = 1000

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("name", GENERATORS)
def test_every_byte_that_an_instruction_writes_is_the_oracles(runner: OracleRunner, name: str, thorough: bool) -> None:
    machine = Machine(DDR_BYTES)
    for seed in range(FIRST_SEED, FIRST_SEED + (CASES_PER_GENERATOR if thorough else QUICK)):
        case = make_case(name, seed)
        expected = runner.run(case, WINDOW_BYTES)
        _run_here(machine, case)
        got = machine.read(case.result.address, case.result.shape, case.result.strides, case.result.dtype)
        assert not differences(expected, got), (seed, case.instruction.describe())
        assert np.array_equal(runner.oracle.lmem[:, :WINDOW_BYTES], machine.lmem[:, :WINDOW_BYTES]), seed
        assert np.array_equal(runner.oracle.ddr, machine.ddr), seed


@pytest.mark.parametrize("name", FLOAT_GENERATORS)
def test_infinite_denormal_and_no_numbers_too(runner: OracleRunner, name: str, thorough: bool) -> None:
    """The sign of a NaN in a sum comes from the order of operands in the host's instructions and is not compared."""
    machine = Machine(DDR_BYTES)
    for seed in range(FIRST_SEED, FIRST_SEED + (CASES_PER_GENERATOR if thorough else QUICK)):
        case = make_case(name, seed, edges=True)
        expected = runner.run(case, WINDOW_BYTES)
        _run_here(machine, case)
        got = machine.read(case.result.address, case.result.shape, case.result.strides, case.result.dtype)
        assert not differences(expected, got, any_nan=True), (seed, case.instruction.describe())


def _run_here(machine: Machine, case: Case) -> None:
    machine.lmem[:, :WINDOW_BYTES] = 0
    machine.ddr[:] = 0
    for place, values in case.writes:
        machine.write(place.address, place.shape, place.strides, place.dtype, values)
    case.instruction.check()
    case.instruction.execute(machine)
