"""Streams of several cores: stretches in which the cores run beside each other, with full barriers between them.

At a barrier both engines of every core send a message and wait until all have sent it. Ids take turns: whoever sends
the next message has seen everyone's last one, and an id is free again once all have waited for it.

Cores are launched one after the other, so a barrier comes first where several work in the first stretch, as in the
vendor's files. Without it, its runtime gave wrong numbers in some runs of a network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tpuc.api import Command, CorruptFile, DecodedStreams, Engine, HazardError, IllegalCommand, Unsupported, stretches

from tpuc_bm1684x.container import CommandGroup
from tpuc_bm1684x.isa.stream import decode_stream, encode_stream
from tpuc_bm1684x.isa.system import ComputeMessage, DmaMessage
from tpuc_bm1684x.isa.target import Target

IDS = (30, 31)
"""Message ids of barriers, in turn; those of the vendor's compiler."""
_MESSAGES: Mapping[Engine, type[ComputeMessage | DmaMessage]] = {
    Engine.COMPUTE: ComputeMessage,
    Engine.DMA: DmaMessage,
}
_STEPS = ((Engine.COMPUTE, True, 0), (Engine.DMA, True, 1), (Engine.COMPUTE, False, 1), (Engine.DMA, False, 2))
"""The messages of a core at a barrier in order: engine, whether it sends, and how many messages of the other engine it
may wait for.
"""


def encode_cores(parts: Sequence[DecodedStreams], target: Target) -> tuple[CommandGroup, ...]:
    """Encode the streams of every core, with a barrier after each stretch; raises IllegalCommand when command ids
    overflow.
    """
    streams = [{engine: list[Command]() for engine in Engine} for _ in range(target.cores)]
    whole = [*stretches(parts)]
    if whole and sum(bool(part.order) for part in whole[0]) > 1:
        whole.insert(0, [])
    for number, stretch in enumerate(whole):
        for part in stretch:
            before = {engine: len(streams[part.core][engine]) for engine in Engine}
            for command in (*part.compute, *part.dma):
                engine = command.engine
                # Behind a barrier, each command also waits for the other engine's message, as the vendor's do.
                wait = command.wait + before[engine.other]
                moved = Command(command.instruction, command.number + before[engine], wait)
                streams[part.core][engine].append(moved)
        for own in streams:
            ends = {engine: len(own[engine]) for engine in Engine}
            for engine, is_send, waits in _STEPS:
                message = _MESSAGES[engine](
                    identifier=IDS[number % len(IDS)], count=_count(target.cores), is_send=is_send, target=target
                )
                own[engine].append(Command(message, len(own[engine]) + 1, ends[engine.other] + waits))
    return tuple(encode_group(own, target) for own in streams)


def encode_group(streams: Mapping[Engine, Sequence[Command]], target: Target) -> CommandGroup:
    """Encode the commands of both engines; raises IllegalCommand when command ids would overflow."""
    compute, dma = streams[Engine.COMPUTE], streams[Engine.DMA]
    return CommandGroup(
        encode_stream(compute, Engine.COMPUTE, target),
        encode_stream(dma, Engine.DMA, target),
        len(compute) + 1,
        len(dma) + 1,
    )


def decode_cores(groups: Sequence[CommandGroup], where: str, target: Target) -> Iterator[DecodedStreams]:
    """Yield the streams of all cores between barriers; raises CorruptFile, IllegalCommand, HazardError, or Unsupported
    for messages that are not barriers.
    """
    if len(groups) > target.cores:
        raise CorruptFile(
            f"{where}: commands for {len(groups)} cores, the chip has {target.cores}; the file is damaged"
        )
    cores = [_divided(group, len(groups), f"{where}, core {core}", target) for core, group in enumerate(groups)]
    ids = cores[0][0]
    if any(one != ids for one, _ in cores):
        raise HazardError(
            f"{where}: the cores wait at different barriers, so that one never goes on; add the missing one"
        )
    if any(one == other for one, other in pairwise(ids)):
        raise HazardError(f"{where}: two barriers in a row have the same message id; let ids take turns")
    for number, stretch in enumerate(zip(*(parts for _, parts in cores), strict=True)):
        if number == 0 and sum(any(part.values()) for part in stretch) > 1:
            raise HazardError(
                f"{where}: several cores work before the first barrier, but they are launched one after the other; "
                "begin with a barrier"
            )
        if any(commands for part in stretch for commands in part.values()):
            for core, part in enumerate(stretch):
                name = f"{where}, stretch {number}, core {core}"
                yield DecodedStreams.of(part[Engine.COMPUTE], part[Engine.DMA], name, core)


def decode_group(group: CommandGroup, where: str, target: Target) -> Mapping[Engine, Sequence[Command]]:
    """Decode both streams of a group."""
    found: dict[Engine, Sequence[Command]] = {}
    pairs = ((Engine.COMPUTE, group.tiu, group.tiu_count), (Engine.DMA, group.gdma, group.gdma_count))
    for engine, data, count in pairs:
        try:
            found[engine] = decode_stream(engine, data, target).commands
        except (CorruptFile, IllegalCommand) as error:
            raise type(error)(f"{where}: {error}") from error
        if len(found[engine]) + 1 != count:
            raise CorruptFile(
                f"{where}: {len(found[engine]) + 1} {engine.label} commands instead of {count}; the file is damaged"
            )
    return found


def _count(cores: int) -> int:
    """How many engines send a message at a barrier."""
    return cores * len(Engine)


@dataclass
class _Run:
    """Commands `[first, end)` of an engine before a barrier with this message id, None after the last one."""

    first: int
    end: int
    identifier: int | None = None


def _divided(
    group: CommandGroup, cores: int, where: str, target: Target
) -> tuple[Sequence[int | None], Sequence[Mapping[Engine, Sequence[Command]]]]:
    """Return the ids of the barriers of a core, and its commands between them, with numbers that begin at 1."""
    streams = decode_group(group, where, target)
    runs = {engine: [*_runs(streams[engine], _count(cores), where)] for engine in Engine}
    ids = [[run.identifier for run in runs[engine]] for engine in Engine]
    if ids[0] != ids[1]:
        raise HazardError(
            f"{where}: its engines wait at different barriers, so that one never goes on; add the missing one"
        )
    parts: list[Mapping[Engine, Sequence[Command]]] = []
    for stretch in zip(*(runs[engine] for engine in Engine), strict=True):
        if stretch[0].identifier is not None:
            _check_waits({engine: streams[engine][stretch[engine].end :] for engine in Engine}, stretch, where)
        parts.append(
            {
                engine: [
                    Command(one.instruction, one.number - run.first, max(one.wait - stretch[engine.other].first, 0))
                    for one in streams[engine][run.first : run.end]
                ]
                for engine, run in zip(Engine, stretch, strict=True)
            }
        )
    return ids[0], parts


def _runs(commands: Sequence[Command], count: int, where: str) -> Iterator[_Run]:
    """Yield the stretches of a stream; raises Unsupported for messages that are not those of barriers."""
    first = at = 0
    while at < len(commands):
        one = commands[at].instruction
        if not isinstance(one, ComputeMessage | DmaMessage):
            at += 1
            continue
        other = commands[at + 1].instruction if at + 1 < len(commands) else None
        if (
            not isinstance(other, ComputeMessage | DmaMessage)
            or (one.is_send, other.is_send) != (True, False)
            or (one.identifier, one.count) != (other.identifier, other.count)
            or one.count != count
        ):
            raise Unsupported(
                f"{where}: {commands[at].engine.label} command {at + 1} ({one.mnemonic()}): a message that is not part "
                f"of a barrier of all {count} engines; the simulator supports barriers only"
            )
        yield _Run(first, at, one.identifier)
        first = at = at + 2
    yield _Run(first, len(commands))


def _check_waits(messages: Mapping[Engine, Sequence[Command]], stretch: Sequence[_Run], where: str) -> None:
    """Raise HazardError for a message that waits for what comes after it."""
    for engine, is_send, most in _STEPS:
        message = messages[engine][0 if is_send else 1]
        if message.wait > stretch[engine.other].end + most:
            raise HazardError(
                f"{where}: {engine.label} command {message.number} ({message.instruction.mnemonic()}) waits for an id "
                "that is never reached; lower it"
            )
