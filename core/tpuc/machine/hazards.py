"""Finds pairs of commands that touch the same bytes while nothing orders them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.machine.instruction import Command, Region
from tpuc.machine.touched import Touched


@dataclass(frozen=True, slots=True)
class Hazard:
    """A compute command and a DMA command that may run at the same time and conflict on `region`."""

    compute: Command
    dma: Command
    region: Region


def find_hazards(compute: Sequence[Command], dma: Sequence[Command]) -> list[Hazard]:
    """All unordered conflicts between the two streams of one command group.

    Commands are ordered when one engine waited, at that command or before, for the other's. Waits only grow, so the
    DMA commands that may run beside a compute command are one contiguous range.
    """
    dma_waits = _running_maximum(dma)
    touched = [Touched.by(command.instruction) for command in dma]
    hazards: list[Hazard] = []
    compute_done = 0
    last = 0
    for command in compute:
        compute_done = max(compute_done, command.wait)
        while last < len(dma) and dma_waits[last] < command.number:
            last += 1
        if compute_done >= last:
            continue
        mine = Touched.by(command.instruction)
        for index in range(compute_done, last):
            region = mine.conflict(touched[index])
            if region is not None:
                hazards.append(Hazard(command, dma[index], region))
    return hazards


def _running_maximum(commands: Sequence[Command]) -> list[int]:
    waits: list[int] = []
    highest = 0
    for command in commands:
        highest = max(highest, command.wait)
        waits.append(highest)
    return waits
