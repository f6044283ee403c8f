"""Cycles per instruction in profile `vendor`: the cost that the vendor's kernel library assigns to each command.

The formulas were derived by querying the library for the cost of some 400,000 random commands of all classes. They
reproduce every one of these costs (README.md, "Timing").
"""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Command, Engine, Instruction, Timeline, make_timeline

from tpuc_bm1684x.isa.command import Bm1684xInstruction
from tpuc_bm1684x.isa.rates import Rates
from tpuc_bm1684x.isa.system import WriteRegisters
from tpuc_bm1684x.timing.compute import compute_cycles
from tpuc_bm1684x.timing.dma import dma_cycles


def cycles(instruction: Instruction, rates: Rates | None = None) -> int:
    """Cycles of one instruction on its own, at the rates of its target unless others are given; at least 1, but 0 for
    writing registers.
    """
    if isinstance(instruction, WriteRegisters):
        return 0
    if not isinstance(instruction, Bm1684xInstruction):
        return 1
    if instruction.engine is Engine.COMPUTE:
        return max(1, compute_cycles(instruction))
    return max(1, dma_cycles(instruction, rates or instruction.target.rates))


def timeline(groups: Sequence[tuple[Sequence[Command], Sequence[Command]]]) -> list[Timeline]:
    """Start and end of every command. Each (compute, DMA) group starts when the group before it ends."""
    done = 0
    timelines: list[Timeline] = []
    for compute, dma in groups:
        timelines.append(make_timeline({Engine.COMPUTE: compute, Engine.DMA: dma}, cycles, done))
        done = max(done, timelines[-1].cycles)
    return timelines


__all__ = ["cycles", "timeline"]
