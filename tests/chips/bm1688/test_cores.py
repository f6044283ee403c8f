"""Streams of two cores: encoded with barriers, decoded again, and refused where a message is missing or wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tpuc.api import Command, CorruptFile, DecodedStreams, Engine, HazardError, TpucError, Unsupported, check_cores
from tpuc_bm1684x.container import CommandGroup
from tpuc_bm1684x.cores import decode_cores, encode_cores, encode_group
from tpuc_bm1684x.isa import Arithmetic, ArithmeticOp, DType, Operand, TensorCopy
from tpuc_bm1684x.isa.stream import decode_stream
from tpuc_bm1684x.isa.system import ComputeMessage, DmaMessage
from tpuc_bm1688.chip import BM1688_CHIP
from tpuc_bm1688.target import ACTIVATIONS, BM1688, CV186X, tagged

from tests.families import each

SHAPE = (1, 32, 4, 4)
STRIDES = (512, 16, 4, 1)
Commands = list[Command]
Streams = list[dict[Engine, Commands]]
"""The commands of each core."""


def copy(source: int, destination: int) -> TensorCopy:
    return TensorCopy(
        source=source,
        destination=destination,
        shape=SHAPE,
        dtype=DType.F32,
        source_strides=STRIDES,
        destination_strides=STRIDES,
    )


def recorded(second: int = 0x1000) -> list[DecodedStreams]:
    """Both cores double a tensor each, then the first one adds both. `second`: where the tensor of core 1 lies."""
    asm, ddr = BM1688_CHIP.assembler(), tagged(ACTIVATIONS)

    def add(left: int, right: int) -> Arithmetic:
        result, one, other = (Operand(place, DType.F32) for place in (0x2000, left, right))
        return Arithmetic(operation=ArithmeticOp.ADD, shape=SHAPE, result=result, left=one, right=other)

    for core, place in ((0, 0), (1, second)):
        asm.begin(core)
        for instruction in (copy(ddr + place, 0), add(0, 0), copy(0x2000, ddr + place)):
            asm.record(instruction)
    asm.begin(0)
    for instruction in (copy(ddr, 0), copy(ddr + second, 0x1000), add(0, 0x1000), copy(0x2000, ddr)):
        asm.record(instruction)
    return asm.parts()


def streams_of(groups: tuple[CommandGroup, ...]) -> Streams:
    return [
        {
            Engine.COMPUTE: [*decode_stream(Engine.COMPUTE, group.tiu, BM1688).commands],
            Engine.DMA: [*decode_stream(Engine.DMA, group.gdma, BM1688).commands],
        }
        for group in groups
    ]


def groups_of(streams: Streams) -> tuple[CommandGroup, ...]:
    return tuple(encode_group(own, BM1688) for own in streams)


def test_streams_are_decoded_as_they_were_recorded() -> None:
    parts = recorded()
    groups = encode_cores(parts, BM1688)
    found = [*decode_cores(groups, "net", BM1688)]
    assert [(part.core, [*part.compute], [*part.dma]) for part in found[:3]] == [
        (part.core, [*part.compute], [*part.dma]) for part in parts
    ]
    assert [(part.core, len(part.order)) for part in found] == [(0, 3), (1, 3), (0, 4), (1, 0)]
    assert groups_of(streams_of(groups)) == groups
    messages = [
        (command.instruction.identifier, command.instruction.count, command.instruction.is_send)
        for command in streams_of(groups)[1][Engine.DMA]
        if isinstance(command.instruction, DmaMessage)
    ]
    assert messages == [(number, 4, is_send) for number in (30, 31, 30) for is_send in (True, False)], "one comes first"
    check_cores(found, ("ddr",), "net")
    with pytest.raises(HazardError, match=r"^net, stretch 0: DMA command 1 \(dma.copy\) of a core and DMA command 2 "):
        check_cores(decode_cores(encode_cores(recorded(0x40), BM1688), "net", BM1688), ("ddr",), "net")


def messages_of(commands: Commands) -> list[int]:
    return [place for place, one in enumerate(commands) if isinstance(one.instruction, ComputeMessage | DmaMessage)]


def without(streams: Streams, core: int, engines: tuple[Engine, ...]) -> Streams:
    """The streams without the last barrier of some engines of a core."""
    for engine in engines:
        commands = streams[core][engine]
        del commands[messages_of(commands)[-2] :]
    return streams


def changed(streams: Streams, engine: Engine, number: int, **changes: object) -> Streams:
    """The streams with another message `number` of an engine of core 1."""
    commands = streams[1][engine]
    place = messages_of(commands)[number]
    commands[place] = replace(commands[place], instruction=replace(commands[place].instruction, **changes))
    return streams


def without_first(streams: Streams) -> Streams:
    """The streams without their first barrier."""
    return [
        {
            engine: [Command(one.instruction, one.number - 2, max(one.wait - 2, 0)) for one in commands[2:]]
            for engine, commands in own.items()
        }
        for own in streams
    ]


def same_ids(streams: Streams) -> Streams:
    for own in streams:
        for commands in own.values():
            for place in messages_of(commands):
                commands[place] = replace(
                    commands[place], instruction=replace(commands[place].instruction, identifier=30)
                )
    return streams


def late(streams: Streams) -> Streams:
    """A message that waits for the other engine's wait for it."""
    place = messages_of(streams[0][Engine.COMPUTE])[0]
    commands = streams[0][Engine.COMPUTE]
    commands[place] = replace(commands[place], wait=commands[place].wait + 2)
    return streams


LAUNCHED = "but they are launched one after the other; begin with a barrier"
NO_BARRIER = "a message that is not part of a barrier of all 4 engines; the simulator supports barriers only"
WRONG: dict[str, tuple[Callable[[Streams], Streams], type[TpucError], str]] = {
    "a core without a barrier": (
        lambda streams: without(streams, 1, tuple(Engine)),
        HazardError,
        "net: the cores wait at different barriers, so that one never goes on; add the missing one",
    ),
    "an engine without a barrier": (
        lambda streams: without(streams, 1, (Engine.DMA,)),
        HazardError,
        "net, core 1: its engines wait at different barriers, so that one never goes on; add the missing one",
    ),
    "no barrier before both cores work": (
        without_first,
        HazardError,
        f"net: several cores work before the first barrier, {LAUNCHED}",
    ),
    "another id": (
        lambda streams: changed(changed(streams, Engine.DMA, 0, identifier=7), Engine.DMA, 1, identifier=7),
        HazardError,
        "net, core 1: its engines wait at different barriers, so that one never goes on; add the missing one",
    ),
    "one id for two barriers": (
        same_ids,
        HazardError,
        "net: two barriers in a row have the same message id; let ids take turns",
    ),
    "too few senders": (
        lambda streams: changed(changed(streams, Engine.COMPUTE, 0, count=3), Engine.COMPUTE, 1, count=3),
        Unsupported,
        f"net, core 1: compute command 1 (sys.message): {NO_BARRIER}",
    ),
    "a wait for what was not sent": (
        lambda streams: changed(streams, Engine.DMA, 0, is_send=False),
        Unsupported,
        f"net, core 1: DMA command 1 (dma.message): {NO_BARRIER}",
    ),
    "messages that wait for each other": (
        late,
        HazardError,
        "net, core 0: compute command 1 (sys.message) waits for an id that is never reached; lower it",
    ),
    "more cores than the chip has": (
        lambda streams: [*streams, streams[0]],
        CorruptFile,
        "net: commands for 3 cores, the chip has 2; the file is damaged",
    ),
}


@each("case", WRONG)
def test_wrong_messages_are_refused(case: str) -> None:
    change, kind, sentence = WRONG[case]
    with pytest.raises(kind) as caught:
        list(decode_cores(groups_of(change(streams_of(encode_cores(recorded(), BM1688)))), "net", BM1688))
    assert str(caught.value) == sentence


def test_a_chip_with_one_core_has_no_messages() -> None:
    groups = encode_cores(recorded(), BM1688)
    with pytest.raises(CorruptFile, match="net: commands for 2 cores, the chip has 1; the file is damaged"):
        list(decode_cores(groups, "net", CV186X))
    assert [one.instruction.mnemonic() for one in decode_stream(Engine.DMA, groups[1].gdma, CV186X).commands[-2:]] == [
        "sDMA_sys.dma.sys.sys_send",
        "sDMA_sys.dma.sys.sys_wait",
    ]
