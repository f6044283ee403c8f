"""Programs of two cores with a barrier or a message changed, and what becomes of their results in extreme orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from tpuc.api import Command, DecodedStreams, Engine, TpucError, stretches
from tpuc_bm1684x.container import BModel, CommandGroup
from tpuc_bm1684x.cores import IDS, encode_group
from tpuc_bm1684x.isa.stream import decode_stream
from tpuc_bm1684x.isa.system import ComputeMessage, DmaMessage
from tpuc_bm1684x.simulator import Simulator
from tpuc_bm1688.simulator import simulator_of
from tpuc_bm1688.target import BM1688, WEIGHTS

from tests.chips.mutants import RandomBytes, led_by, random_inputs

Place = tuple[int, Engine]
"""A core and one of its engines."""
Streams = dict[Place, list[Command]]
PLACES: tuple[Place, ...] = tuple(product(range(BM1688.cores), Engine))
MESSAGES = (ComputeMessage, DmaMessage)
MATTERING = ("barrier removed", "messages earlier", "messages later")
"""Changes that may be harmless: they are refused where they can change a result. All others are always refused."""


def streams_of(groups: Sequence[CommandGroup]) -> Streams:
    """The commands of each engine."""
    return {
        (core, engine): [*decode_stream(engine, data, BM1688).commands]
        for core, group in enumerate(groups)
        for engine, data in ((Engine.COMPUTE, group.tiu), (Engine.DMA, group.gdma))
    }


def groups_of(streams: Streams) -> tuple[CommandGroup, ...]:
    """Their streams as bytes."""
    return tuple(encode_group({engine: streams[core, engine] for engine in Engine}, BM1688) for core in (0, 1))


def messages_of(commands: Sequence[Command]) -> list[int]:
    """Where the messages are: sent and awaited in turn."""
    return [place for place, one in enumerate(commands) if isinstance(one.instruction, MESSAGES)]


def mutants_of(streams: Streams) -> Iterator[tuple[str, Streams]]:
    """Every barrier removed, moved and changed: what was changed, and the streams."""
    count = len(messages_of(streams[PLACES[0]])) // 2
    free = {place: [_without_wait(one) for one in commands] for place, commands in streams.items()}
    for number in range(count):
        pair = (2 * number, 2 * number + 1)
        gone = {place: _without(streams[place], pair) for place in PLACES}
        yield "barrier removed", _numbered(_linked(streams, gone))
        if 0 < number < count - 1:
            yield "barrier removed, ids kept", _linked(streams, gone)
        for core in range(BM1688.cores):
            yield "barrier of a core removed", _linked(streams, {place: gone[place] for place in _engines(core)})
        if number:
            before = _identifier(streams, number - 1)
            yield "id used again", _changed(streams, PLACES, pair, identifier=before)
            for core in range(BM1688.cores):
                yield "id used again by a core", _changed(streams, _engines(core), pair, identifier=before)
        yield "count of all", _changed(streams, PLACES, pair, count=3)
        for place in PLACES:
            yield "barrier of an engine removed", _linked(streams, {place: gone[place]})
            if number:
                yield "id used again by an engine", _changed(streams, [place], pair, identifier=before)
                yield "barriers exchanged", _exchanged(streams, place, number)
            for one in pair:
                yield "message removed", _linked(streams, {place: _without(streams[place], [one])})
                yield "id of a message", _changed(streams, [place], [one], identifier=7)
                for wrong in (0, 3, 5):
                    yield "count of a message", _changed(streams, [place], [one], count=wrong)
            yield "awaited before sent", _linked(streams, {place: _moved(streams[place], pair[0], 1, 1)})
            for name, steps in (("messages earlier", -1), ("messages later", 1)):
                moved = _moved(free[place], pair[0], 2, steps)
                if moved is not None:
                    yield name, _linked(free, {place: moved})


def _without_wait(command: Command) -> Command:
    """The command; a message without its wait for the other engine, which a barrier does not need."""
    return replace(command, wait=0) if isinstance(command.instruction, MESSAGES) else command


def _engines(core: int) -> list[Place]:
    return [(core, engine) for engine in Engine]


def _identifier(streams: Streams, number: int) -> int:
    commands = streams[PLACES[0]]
    message = commands[messages_of(commands)[2 * number]].instruction
    assert isinstance(message, MESSAGES)
    return message.identifier


def _without(commands: Sequence[Command], messages: Iterable[int]) -> list[Command]:
    places = messages_of(commands)
    gone = {places[number] for number in messages}
    return [one for place, one in enumerate(commands) if place not in gone]


def _moved(commands: Sequence[Command], message: int, length: int, steps: int) -> list[Command] | None:
    """`length` messages, `steps` commands earlier or later; None where other messages, or nothing, are there."""
    first = messages_of(commands)[message]
    at = first + steps
    passed = commands[first + length : at + length] if steps > 0 else commands[max(at, 0) : first]
    if len(passed) != abs(steps) or (length > 1 and any(isinstance(one.instruction, MESSAGES) for one in passed)):
        return None
    rest = [*commands[:first], *commands[first + length :]]
    return [*rest[:at], *commands[first : first + length], *rest[at:]]


def _exchanged(streams: Streams, place: Place, number: int) -> Streams:
    """A barrier with the id of the one before it, and the other way round, on one engine."""
    ids = _identifier(streams, number - 1), _identifier(streams, number)
    first = _changed(streams, [place], (2 * number, 2 * number + 1), identifier=ids[0])
    return _changed(first, [place], (2 * number - 2, 2 * number - 1), identifier=ids[1])


def _changed(streams: Streams, places: Iterable[Place], messages: Iterable[int], **changes: int) -> Streams:
    found = {place: [*commands] for place, commands in streams.items()}
    numbers = [*messages]
    for place in places:
        for number in numbers:
            at = messages_of(found[place])[number]
            message: Any = found[place][at].instruction
            found[place][at] = replace(found[place][at], instruction=replace(message, **changes))
    return found


def _numbered(streams: Streams) -> Streams:
    """The streams with ids that take turns."""
    for number in range(len(messages_of(streams[PLACES[0]]))):
        streams = _changed(streams, PLACES, [number], identifier=IDS[number // 2 % len(IDS)])
    return streams


def _linked(streams: Streams, changed: Streams) -> Streams:
    """The streams with `changed` ones, in which every wait means the same command as before, or what was before it."""
    found: Streams = {}
    for core, engine in PLACES:
        before, after = streams[core, engine.other], changed.get((core, engine.other), streams[core, engine.other])
        numbers = {id(one): number for number, one in enumerate(after, start=1)}
        reached = [0]
        for one in before:
            reached.append(numbers.get(id(one), reached[-1]))
        own = changed.get((core, engine), streams[core, engine])
        found[core, engine] = [
            Command(one.instruction, number, reached[one.wait]) for number, one in enumerate(own, start=1)
        ]
    return found


class Program:
    """A file for two cores, whose streams may be replaced."""

    def __init__(self, data: bytes) -> None:
        self.model = BModel.from_bytes(data, BM1688.file_chip)
        (net,) = self.model.nets
        (stage,) = net.stages
        (subnet,) = stage.subnets
        self.streams = streams_of(subnet.cores)
        assert groups_of(self.streams) == subnet.cores

    def simulator(self, streams: Streams) -> Simulator:
        """Raises what is wrong with the messages."""
        (net,) = self.model.nets
        (stage,) = net.stages
        subnets = (replace(stage.subnets[0], cores=groups_of(streams)),)
        nets = (replace(net, stages=(replace(stage, subnets=subnets),)),)
        return _RandomStart(replace(self.model, nets=nets))


class _RandomStart(simulator_of(BM1688)):
    """Starts with random bytes in all memories but the weights."""

    def _reset(self) -> None:
        super()._reset()
        random = RandomBytes()
        for core, machine in enumerate(self._cores):
            random.fill(f"lmem {core}", machine.lmem[:, : self._lmem_bytes])
        for tag, memory in enumerate(self.machine.tagged):
            if tag != WEIGHTS:
                random.fill(f"tag {tag}", memory)


def results(simulator: Simulator) -> set[bytes]:
    """The results in the extreme orders: each core, and each engine in it, as far ahead as it may be."""
    inputs = random_inputs(simulator.inputs)
    found, whole = set[bytes](), [*stretches(simulator.parts)]
    for last_first, engine in product((False, True), Engine):
        parts: list[DecodedStreams] = []
        for stretch in whole:
            ordered = reversed(stretch) if last_first else stretch
            parts += [replace(led_by(engine, part), core=part.core) for part in ordered]
        simulator.steps = tuple(parts)
        try:
            with np.errstate(all="ignore"):
                outputs = simulator.run(inputs, check=False)
        except TpucError:
            found.add(b"no result")
            continue
        found.add(b"".join(outputs[name].tobytes() for name in sorted(outputs)))
    return found


@dataclass
class Tally:
    """What mutants did, by kind of change: all, those refused, those of them that change a result in an extreme order,
    and those that pass and change one, which must be none.
    """

    tried: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    shown: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        rows = [
            f"{kind}: {count} tried, {self.refused[kind]} refused, {self.shown[kind]} of them shown by results, "
            f"{self.missed[kind]} missed"
            for kind, count in self.tried.items()
        ]
        whole = f"all: {self.tried.total()} tried, {self.refused.total()} refused, {self.missed.total()} missed"
        return "\n".join([*rows, whole])


def try_mutants(data: bytes, kinds: Collection[str] = ()) -> Tally:
    """Prove every mutant, or those of `kinds`; run those that the messages allow."""
    program, tally = Program(data), Tally()
    simulator = program.simulator(program.streams)
    simulator.check()
    wanted = results(simulator)
    assert len(wanted) == 1, "the program itself has a hazard"
    for kind, streams in mutants_of(program.streams):
        if kinds and kind not in kinds:
            continue
        tally.tried[kind] += 1
        try:
            simulator = program.simulator(streams)
        except TpucError:
            tally.refused[kind] += 1
            continue
        try:
            simulator.check()
            is_refused = False
        except TpucError:
            is_refused = True
        changes = results(simulator) != wanted
        tally.refused[kind] += is_refused
        tally.shown[kind] += is_refused and changes
        tally.missed[kind] += changes and not is_refused
    return tally
