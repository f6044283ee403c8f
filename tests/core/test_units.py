"""Waits among any number of units: proved against all that programs can do, and equal to those of two engines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tpuc.api import Engine, Region, Unit, UnitCommand, Wait, derive_unit_waits, derive_waits, run_units, unit_hazards

from tests.core.test_hazards import KINDS, Touch


def program(random: np.random.Generator, cores: int, length: int) -> list[tuple[Unit, Touch]]:
    """Commands of all units in any order, each of which reads and writes some of eight places."""
    found: list[tuple[Unit, Touch]] = []
    for _ in range(length):
        unit = Unit(int(random.integers(cores)), Engine(int(random.integers(2))))
        read, written = (_places(random) for _ in range(2))
        found.append((unit, KINDS[unit.engine](read, written)))
    return found


def _places(random: np.random.Generator) -> tuple[Region, ...]:
    return tuple(Region("ddr", 64 * int(place), 64 * int(place) + 8) for place in random.integers(8, size=2))


def conflict(one: Touch, other: Touch) -> bool:
    """Does one of both write what the other touches?"""
    pairs = ((one.written, (*other.read, *other.written)), (other.written, one.read))
    return any(mine.start == theirs.start for some, others in pairs for mine in some for theirs in others)


def order(commands: Sequence[UnitCommand]) -> np.ndarray:
    """Which command is surely done before which starts: the closure of streams and waits."""
    places = {Wait(command.unit, command.number): index for index, command in enumerate(commands)}
    before = np.zeros((len(commands), len(commands)), bool)
    for index, command in enumerate(commands):
        own = [Wait(command.unit, command.number - 1)] if command.number > 1 else []
        for wait in (*own, *command.waits):
            before[index] |= before[places[wait]]
            before[index, places[wait]] = True
    return before


def test_conflicts_are_ordered_and_no_wait_follows_from_others() -> None:
    random = np.random.default_rng(0)
    for cores in (1, 2, 4):
        for _ in range(6):
            touches = program(random, cores, 20)
            commands = derive_unit_waits(touches)
            before = order(commands)
            for late in range(len(commands)):
                unordered = [early for early in range(late) if not before[late, early]]
                assert not [early for early in unordered if conflict(touches[early][1], touches[late][1])]
            assert list(unit_hazards(commands)) == []
            for index, command in enumerate(commands):
                for place in range(len(command.waits)):
                    waits = command.waits[:place] + command.waits[place + 1 :]
                    less = [*commands[:index], UnitCommand(command.instruction, command.unit, command.number, waits)]
                    assert list(unit_hazards([*less, *commands[index + 1 :]])), "a wait too many"


def test_two_engines_get_the_waits_of_one_core() -> None:
    random = np.random.default_rng(1)
    for _ in range(30):
        touches = program(random, 1, 40)
        reached: dict[Unit, int] = {}
        for (unit, _), ours, theirs in zip(
            touches, derive_unit_waits(touches), derive_waits(touch for _, touch in touches), strict=True
        ):
            reached[unit] = max([reached.get(unit, 0), *(wait.number for wait in ours.waits)])
            assert (ours.number, reached[unit]) == (theirs.number, theirs.wait)


def test_time_passes_by_waits() -> None:
    one, two, three = Unit(0, Engine.COMPUTE), Unit(0, Engine.DMA), Unit(1, Engine.DMA)
    touch = KINDS[Engine.DMA]()
    commands = [
        UnitCommand(touch, two, 1),
        UnitCommand(touch, three, 1),
        UnitCommand(touch, one, 1, (Wait(two, 1), Wait(three, 1))),
        UnitCommand(touch, three, 2, (Wait(one, 1),)),
    ]
    entries = run_units(commands, lambda _: 5)
    assert [(entry.command.unit, entry.start, entry.end) for entry in entries] == [
        (two, 0, 5),
        (three, 0, 5),
        (one, 5, 10),
        (three, 10, 15),
    ]
    assert entries[-1].done == {one: 1, two: 1, three: 1}
    with pytest.raises(ValueError, match=r"^units wait for each other$"):
        run_units([UnitCommand(touch, one, 1, (Wait(two, 1),))], lambda _: 1)
