"""Machines with several cores: any number of command queues, each of which may wait for several others.

No chip uses this yet. A single-core machine has two units and gets the same waits as from `derive_waits`. Implied waits
are omitted: waiting for a command includes everything it waited for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tpuc.machine.hazards import Hazard, iterate_hazards
from tpuc.machine.instruction import Command, Engine, Instruction
from tpuc.machine.touched import Touched


@dataclass(frozen=True, slots=True, order=True)
class Unit:
    """An engine of a core, which runs its commands in order and counts them from 1."""

    core: int
    engine: Engine


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until a unit has finished the command of that number, and all before it."""

    unit: Unit
    number: int


@dataclass(frozen=True, slots=True)
class UnitCommand:
    """An instruction in the stream of its unit, with at most one wait per other unit."""

    instruction: Instruction
    unit: Unit
    number: int
    waits: tuple[Wait, ...] = ()


Done: TypeAlias = Mapping[Unit, int]
"""Number of finished commands of each unit."""


def derive_unit_waits(program: Iterable[tuple[Unit, Instruction]]) -> list[UnitCommand]:
    """Number the instructions of a program per unit; each waits for the latest conflicting ones of the others.

    Program order defines the semantics.
    """
    touched: dict[Unit, list[Touched]] = defaultdict(list)
    known: dict[Unit, dict[Unit, int]] = defaultdict(lambda: defaultdict(int))
    before: dict[Wait, Done] = {}
    commands: list[UnitCommand] = []
    for unit, instruction in program:
        mine, done = Touched.by(instruction), known[unit]
        wanted: list[Wait] = []
        for other in sorted(touched.keys() - {unit}):
            theirs = touched[other]
            conflicts = (n for n in range(len(theirs), done[other], -1) if mine.conflict(theirs[n - 1]) is not None)
            wanted += [Wait(other, number) for number in conflicts][:1]
        waits = [one for one in wanted if not any(before[two].get(one.unit, 0) >= one.number for two in wanted)]
        for wait in waits:
            _merge(done, {**before[wait], wait.unit: wait.number})
        touched[unit].append(mine)
        number = len(touched[unit])
        before[Wait(unit, number)] = dict(done)
        commands.append(UnitCommand(instruction, unit, number, tuple(waits)))
    return commands


def _merge(done: dict[Unit, int], more: Done) -> None:
    for unit, number in more.items():
        done[unit] = max(done.get(unit, 0), number)


@dataclass(frozen=True, slots=True)
class UnitEntry:
    """One command with its first cycle and the first cycle after it, and the commands finished when it started."""

    command: UnitCommand
    start: int
    end: int
    done: Done


def run_units(commands: Sequence[UnitCommand], cycles_of: Callable[[Instruction], int]) -> list[UnitEntry]:
    """Schedule the streams by their waits, each unit as early as possible; raises ValueError for a deadlock."""
    streams: dict[Unit, list[UnitCommand]] = defaultdict(list)
    for command in commands:
        streams[command.unit].append(command)
    found: dict[Unit, list[UnitEntry]] = {unit: [] for unit in streams}
    entries: list[UnitEntry] = []
    while len(entries) < len(commands):
        ran = len(entries)
        for unit in sorted(streams):
            while len(found[unit]) < len(streams[unit]):
                command = streams[unit][len(found[unit])]
                if any(len(found.get(wait.unit, ())) < wait.number for wait in command.waits):
                    break
                behind = [found[wait.unit][wait.number - 1] for wait in command.waits] + found[unit][-1:]
                done: dict[Unit, int] = {}
                for entry in behind:
                    _merge(done, {**entry.done, entry.command.unit: entry.command.number})
                start = max((entry.end for entry in behind), default=0)
                found[unit].append(UnitEntry(command, start, start + cycles_of(command.instruction), done))
                entries.append(found[unit][-1])
        if len(entries) == ran:
            raise ValueError("units wait for each other")
    return entries


def unit_hazards(commands: Sequence[UnitCommand]) -> Iterator[Hazard]:
    """All unordered conflicts, by pairs of units; if there are none, every order that the waits allow gives the same
    bits.

    Waits through third units count, so each pair is checked as a machine of two engines.
    """
    streams: dict[Unit, list[UnitEntry]] = defaultdict(list)
    for entry in run_units(commands, lambda _: 1):
        streams[entry.command.unit].append(entry)
    units = sorted(streams)
    for place, one in enumerate(units):
        for other in units[place + 1 :]:
            yield from iterate_hazards(_towards(streams[one], other), _towards(streams[other], one))


def _towards(entries: Sequence[UnitEntry], other: Unit) -> list[Command]:
    """A stream as seen by one other unit."""
    return [Command(entry.command.instruction, entry.command.number, entry.done.get(other, 0)) for entry in entries]
