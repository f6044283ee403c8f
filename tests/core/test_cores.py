"""Programs of several cores: stretches between barriers, their times, and conflicts that no barrier orders."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import (
    DecodedStreams,
    Engine,
    HazardError,
    Recorder,
    Region,
    check_cores,
    core_hazards,
    make_timelines,
    stretches,
)

from tests.core.test_hazards import KINDS, Touch


def at(place: int, space: str = "ddr") -> tuple[Region, ...]:
    return (Region(space, 64 * place, 64 * place + 8),)


def touch(engine: Engine, read: tuple[Region, ...] = (), written: tuple[Region, ...] = ()) -> Touch:
    return KINDS[engine](read, written)


def recorded(*program: tuple[int, list[Touch]]) -> list[DecodedStreams]:
    """The parts of a program, given as cores with what they execute."""
    recorder = Recorder()
    for core, instructions in program:
        recorder.begin(core)
        for instruction in instructions:
            recorder.record(instruction)
    return recorder.parts()


def test_a_recorder_divides_the_program_where_cores_begin() -> None:
    load, use = touch(Engine.DMA, (), at(0, "lmem")), touch(Engine.COMPUTE, at(0, "lmem"))
    parts = recorded((0, [load, use]), (1, [load, load, use]), (0, []), (0, [use]))
    assert [(part.core, len(part.compute), len(part.dma)) for part in parts] == [
        (0, 1, 1),
        (1, 1, 2),
        (0, 0, 0),
        (0, 1, 0),
    ]
    assert [part.compute[0].wait for part in parts if part.compute] == [1, 2, 0]
    assert [len(stretch) for stretch in stretches(parts)] == [2, 1, 1]
    (whole,) = recorded((0, [load, use]))
    plain = Recorder()
    plain.instructions = [load, use]
    assert plain.parts() == [whole]


def test_cores_run_beside_each_other_up_to_a_barrier() -> None:
    step = touch(Engine.COMPUTE)
    timeline = make_timelines(recorded((0, [step] * 3), (1, [step] * 5), (0, [step])), lambda _: 10)
    assert [(one.core, one.start) for one in timeline.entries] == [
        *((0, 10 * index) for index in range(3)),
        *((1, 10 * index) for index in range(5)),
        (0, 50),
    ]
    assert (timeline.cycles, timeline.busy[Engine.COMPUTE]) == (60, 90)


def test_conflicts_of_cores_are_those_of_all_pairs() -> None:
    random = np.random.default_rng(0)
    seen = {True: 0, False: 0}
    for _ in range(300):
        programs: list[tuple[int, list[Touch]]] = []
        for core in (0, 1, 2)[: int(random.integers(2, 4))]:
            touches: list[Touch] = []
            for _ in range(int(random.integers(1, 5))):
                places = [at(int(place), str(random.choice(["ddr", "lmem"]))) for place in random.integers(12, size=2)]
                touches.append(touch(Engine(int(random.integers(2))), *places))
            programs.append((core, touches))
        wanted = {
            (one, other)
            for place, (_, ones) in enumerate(programs)
            for _, others in programs[place + 1 :]
            for one in ones
            for other in others
            if any(
                mine.space == theirs.space == "ddr" and mine.start == theirs.start
                for mine, theirs in (
                    *((a, b) for a in one.written for b in (*other.read, *other.written)),
                    *((a, b) for a in one.read for b in other.written),
                )
            )
        }
        (stretch,) = stretches(recorded(*programs))
        found = {(hazard.compute.instruction, hazard.dma.instruction) for hazard in core_hazards(stretch, ("ddr",))}
        assert found == wanted
        seen[bool(wanted)] += 1
    assert min(seen.values()) > 30


def test_a_conflict_of_two_cores_needs_a_barrier() -> None:
    store, load = touch(Engine.DMA, (), at(3)), touch(Engine.DMA, at(3))
    check_cores(recorded((0, [store]), (0, []), (1, [load])), ("ddr",), "net")
    check_cores(recorded((0, [store]), (1, [load])), ("elsewhere",), "net")
    with pytest.raises(
        HazardError,
        match=r"^net, stretch 0: DMA command 1 \(touch\) of a core and DMA command 1 \(touch\) of another run at the "
        r"same time and both use ddr 0xc0\.\.0xc8; put a barrier between them$",
    ):
        check_cores(recorded((0, [store]), (1, [load])), ("ddr",), "net")
