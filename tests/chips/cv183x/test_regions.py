"""Regions that instructions state: what is read decides the result, and nothing but what is written changes."""

from __future__ import annotations

from functools import partial

import pytest
from tpuc.api import Region
from tpuc_cv18.isa.geometry import GMEM_BASE, GMEM_BITS, split_gmem
from tpuc_cv18.machine import Machine
from tpuc_cv183x.chip import CV183X

from tests.chips.cv18.cases import generators, make_case
from tests.chips.cv18.draw import BASES, WINDOW_BYTES
from tests.chips.regions import Memories, wrong_regions
from tests.families import each

SEEDS = range(7000, 7002)
MORE_SEEDS = range(7002, 7024)


def locate(region: Region) -> tuple[str, int]:
    """Local memory is a window of each lane; GMEM is one memory behind each base register."""
    if region.space == "lmem":
        return "lmem", 0
    base = split_gmem(region.start)[0]
    return f"gmem{base}", base << GMEM_BITS | GMEM_BASE


def memories_of(machine: Machine) -> Memories:
    """Views."""
    return {"lmem": machine.lmem[:, :WINDOW_BYTES]} | {f"gmem{base}": machine.gmem[base][None] for base in range(BASES)}


@each("seeds", [pytest.param(SEEDS, id="few"), pytest.param(MORE_SEEDS, id="more", marks=pytest.mark.slow)])
@each("name", generators(CV183X))
def test_regions_are_what_instructions_touch(name: str, seeds: range) -> None:
    machine = Machine(CV183X)
    for seed in seeds:
        case = make_case(name, seed, CV183X)
        case.load(machine)
        wrong = wrong_regions(
            case.instruction, memories_of(machine), locate, partial(case.instruction.execute, machine), seed
        )
        assert wrong is None, (seed, case.instruction.describe(), wrong)
