"""Regions that instructions state: what is read decides the result, and nothing but what is written changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from tpuc.api import Instruction, Region
from tpuc_bm1684x.isa.geometry import DDR_BASE
from tpuc_bm1684x.machine import Machine

from tests.chips.bm1684x.cases import GENERATORS, make_case
from tests.chips.bm1684x.draw import WINDOW_BYTES, Case
from tests.chips.regions import Memories, wrong_regions
from tests.families import each

DDR_BYTES = 1 << 20
SEEDS = range(7000, 7002)
MORE_SEEDS = range(7002, 7024)


def locate(region: Region) -> tuple[str, int]:
    """Local memory is a window of each lane; the others start at their base."""
    return region.space, DDR_BASE if region.space == "ddr" else 0


def memories_of(machine: Machine) -> Memories:
    """Views."""
    return {"lmem": machine.lmem[:, :WINDOW_BYTES], "ddr": machine.ddr[None], "smem": machine.smem[None]}


def prepare(machine: Machine, case: Case) -> None:
    """Operands in memories that are otherwise the same for all cases."""
    machine.lmem[:, :WINDOW_BYTES] = 0
    machine.ddr[:] = 0
    for place, values in case.writes:
        machine.write(place.address, place.shape, place.strides, place.dtype, values)


@each("seeds", [pytest.param(SEEDS, id="few"), pytest.param(MORE_SEEDS, id="more", marks=pytest.mark.slow)])
@each("name", GENERATORS)
def test_regions_are_what_instructions_touch(name: str, seeds: range) -> None:
    machine = Machine(DDR_BYTES)
    smem = machine.smem.copy()
    for seed in seeds:
        case = make_case(name, seed)
        prepare(machine, case)
        machine.smem[:] = smem
        wrong = wrong_regions(
            case.instruction, memories_of(machine), locate, partial(case.instruction.execute, machine), seed
        )
        assert wrong is None, (seed, case.instruction.describe(), wrong)


@dataclass(frozen=True)
class Told:
    """An instruction that says something else of itself."""

    instruction: Instruction
    read: Sequence[Region]
    written: Sequence[Region]

    def reads(self) -> Sequence[Region]:
        return self.read

    def writes(self) -> Sequence[Region]:
        return self.written


@each("side", ["reads", "writes"])
def test_a_region_that_is_one_byte_short_is_found(side: str) -> None:
    machine = Machine(DDR_BYTES)
    case = make_case("compare", SEEDS[0])
    prepare(machine, case)
    regions: dict[str, list[Region]] = {"reads": [*case.instruction.reads()], "writes": [*case.instruction.writes()]}
    last = regions[side][-1]
    regions[side][-1] = Region(last.space, last.start, last.end - 1, last.first_lane, last.end_lane)
    told: Any = Told(case.instruction, regions["reads"], regions["writes"])
    wrong = wrong_regions(told, memories_of(machine), locate, partial(case.instruction.execute, machine), 1)
    assert wrong is not None
    assert wrong.startswith("result at lmem" if side == "reads" else "writes lmem")
