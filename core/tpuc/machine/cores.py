"""Programs of several cores with common DDR: stretches in which cores run beside each other, between full barriers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from tpuc.errors import HazardError
from tpuc.machine.hazards import Hazard, iterate_hazards
from tpuc.machine.instruction import Command, Engine, Instruction, Region
from tpuc.machine.simulation import DecodedStreams, label_of, show_region, stretches


def core_hazards(stretch: Sequence[DecodedStreams], shared: Sequence[str]) -> Iterator[Hazard]:
    """Conflicts of different cores, which nothing orders, in the `shared` memories; the later core's command is `dma`.

    If there are none, and none within a part, every order of all engines that the waits allow gives the same bits.
    """
    for one, other in combinations(stretch, 2):
        first, second = (_in_shared(part, shared) for part in (one, other))
        for hazard in iterate_hazards(first, second):
            yield replace(hazard, compute=_whole(hazard.compute), dma=_whole(hazard.dma))


def check_cores(parts: Iterable[DecodedStreams], shared: Sequence[str], where: str) -> None:
    """Raise HazardError for commands of two cores that conflict without a barrier between them."""
    for number, stretch in enumerate(stretches(parts)):
        for hazard in core_hazards(stretch, shared):
            one, other = map(label_of, (hazard.compute, hazard.dma))
            raise HazardError(
                f"{where}, stretch {number}: {one} of a core and {other} of another run at the same time and both use "
                f"{show_region(hazard.region)}; put a barrier between them"
            )


@dataclass(frozen=True)
class _Shared(Instruction):
    """What an instruction does in the shared memories."""

    engine = Engine.DMA
    whole: Command
    spaces: Sequence[str]

    def reads(self) -> Sequence[Region]:
        return [region for region in self.whole.instruction.reads() if region.space in self.spaces]

    def writes(self) -> Sequence[Region]:
        return [region for region in self.whole.instruction.writes() if region.space in self.spaces]

    def encode(self, number: int, wait: int) -> bytes:
        return self.whole.instruction.encode(number, wait)

    def execute(self, machine: Any) -> None:
        self.whole.instruction.execute(machine)

    def describe(self) -> str:
        return self.whole.instruction.describe()


def _in_shared(part: DecodedStreams, spaces: Sequence[str]) -> list[Command]:
    """The commands of a part that touch shared memory, none of which waits."""
    found = (_Shared(command, spaces) for command in (*part.compute, *part.dma))
    touching = [one for one in found if one.reads() or one.writes()]
    return [Command(one, number + 1, 0) for number, one in enumerate(touching)]


def _whole(command: Command) -> Command:
    assert isinstance(command.instruction, _Shared)
    return command.instruction.whole
