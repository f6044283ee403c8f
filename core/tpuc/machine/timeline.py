"""Start and end times of commands on two in-order engines that wait for each other's ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tpuc.machine.instruction import Command, Engine, Instruction


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One command of a core with its first cycle and the first cycle after it."""

    command: Command
    start: int
    end: int
    core: int = 0


@dataclass(frozen=True)
class Timeline:
    """All commands of one group with their times; `cycles` ends with the later engine."""

    entries: tuple[TimelineEntry, ...]
    busy: dict[Engine, int] = field(default_factory=dict[Engine, int])

    @property
    def cycles(self) -> int:
        """The end of the last command."""
        return max((entry.end for entry in self.entries), default=0)


def make_timeline(
    streams: dict[Engine, Sequence[Command]], cycles_of: Callable[[Instruction], int], start: int = 0, core: int = 0
) -> Timeline:
    """Schedule both streams of a core by their waits; raises ValueError for a deadlock."""
    ends: dict[Engine, list[int]] = {engine: [start] for engine in Engine}
    position = dict.fromkeys(Engine, 0)
    entries: list[TimelineEntry] = []
    busy = dict.fromkeys(Engine, 0)
    while any(position[engine] < len(streams[engine]) for engine in Engine):
        moved = False
        for engine in Engine:
            stream, done = streams[engine], ends[engine.other]
            while position[engine] < len(stream) and stream[position[engine]].wait < len(done):
                command = stream[position[engine]]
                begin = max(ends[engine][-1], done[command.wait])
                duration = cycles_of(command.instruction)
                ends[engine].append(begin + duration)
                busy[engine] += duration
                entries.append(TimelineEntry(command, begin, begin + duration, core))
                position[engine] += 1
                moved = True
        if not moved:
            stuck = {engine.name.lower(): position[engine] + 1 for engine in Engine}
            where = f"compute at command {stuck['compute']}, DMA at {stuck['dma']}"
            raise ValueError(f"both engines wait for each other: {where}")
    entries.sort(key=lambda entry: (entry.start, entry.command.engine, entry.command.number))
    return Timeline(tuple(entries), busy)
