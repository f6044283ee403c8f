"""The chip definitions of CV186x and BM1688; sources: ISA notes in README.md."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tpuc.api import ChipDescription
from tpuc_bm1684x.chip import DESCRIPTION, Bm1684x
from tpuc_bm1684x.isa.target import Target

from tpuc_bm1688.target import ACTIVATIONS, BM1688, CV186X, WEIGHTS, tagged

if TYPE_CHECKING:
    from tpuc_bm1684x.simulator import Simulator


def describe(target: Target) -> ChipDescription:
    """The chip description of a target: that of BM1684X, whose lowerings apply, with other memories and clocks."""
    return replace(
        DESCRIPTION,
        name=target.name,
        lanes=target.lanes,
        lmem_bytes=target.lmem_bytes,
        ddr_base=tagged(WEIGHTS),
        activations_base=tagged(ACTIVATIONS),
        lowering_families=(DESCRIPTION.name,),
        clock_hz=target.clock_hz,
        cores=target.cores,
        processor_hz=1_600_000_000,  # a guess for the Cortex-A53
        reset_input="",
        support=Path(__file__).with_name("support.json"),
    )


class SecondGeneration(Bm1684x):
    """A chip whose files have tagged addresses."""

    def __init__(self, target: Target) -> None:
        super().__init__(target, describe(target))

    @property
    def simulator(self) -> type[Simulator]:
        from tpuc_bm1688.simulator import simulator_of

        return simulator_of(self.target)


CHIP = SecondGeneration(CV186X)
"""Sophgo CV186x: 32 lanes of 128 KiB, one core; instructions, kernels and files of BM1684X."""

BM1688_CHIP = SecondGeneration(BM1688)
"""Sophgo BM1688: two cores like the one of CV186x; files use one of them."""
