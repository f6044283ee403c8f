"""The proof over wait ids: against all orders that small programs can run in, and byte by byte for strided tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import Command, DecodedStreams, Engine, HazardError, Instruction, Region, RegionTensor, find_hazards
from tpuc.machine import footprint, hazards

from tests.examples import examples

LANES = 4
Byte = tuple[str, int, int]
"""Space, lane, offset."""


@dataclass(frozen=True)
class Touch(Instruction):
    """Touches what it is told to."""

    read: tuple[Region, ...] = ()
    written: tuple[Region, ...] = ()

    def reads(self) -> Sequence[Region]:
        return self.read

    def writes(self) -> Sequence[Region]:
        return self.written

    def encode(self, number: int, wait: int) -> bytes:
        raise NotImplementedError

    def execute(self, machine: object) -> None:
        raise NotImplementedError

    def describe(self) -> str:
        return "touch"


class Compute(Touch):
    """On the compute engine."""

    engine = Engine.COMPUTE


class Dma(Touch):
    """On the DMA engine."""

    engine = Engine.DMA


KINDS = {Engine.COMPUTE: Compute, Engine.DMA: Dma}


def tensor_region(
    space: str, start: int, extents: Sequence[int], steps: Sequence[int], item: int, lane: int, channels: int, slot: int
) -> tuple[Region, set[Byte]]:
    """A strided tensor as a region, and its bytes from the definition of its layout."""
    touched: set[Byte] = set()
    for channel in range(channels):
        row, place = divmod(lane + channel, LANES)
        for index in product(*map(range, extents)):
            at = start + row * slot + sum(i * step for i, step in zip(index, steps, strict=True))
            touched |= {(space, place, at + byte) for byte in range(item)}
    offsets = [at for _, _, at in touched]
    several = lane + channels > LANES
    lanes = (0, LANES) if several else (lane, lane + channels)
    tensor = RegionTensor(item, extents, steps, lane, channels, slot, LANES)
    return Region(space, min(offsets), max(offsets) + 1, *lanes, tensor), touched


@st.composite
def tensors(draw: st.DrawFn) -> tuple[Region, set[Byte]]:
    """Strided, with gaps, repeated and interleaved dimensions; in lanes, or in a plain memory."""
    extents = draw(st.lists(st.integers(1, 3), min_size=0, max_size=3))
    steps = draw(st.lists(st.integers(0, 12), min_size=len(extents), max_size=len(extents)))
    start, item = draw(st.integers(0, 12)), draw(st.sampled_from((1, 2, 4)))
    if draw(st.booleans()):
        region, touched = tensor_region("ddr", start, extents, steps, item, 0, 1, 0)
        plain = RegionTensor(item, extents, steps)
        return Region("ddr", region.start, region.end, tensor=plain), touched
    lane, channels = draw(st.integers(0, LANES - 1)), draw(st.integers(1, 3 * LANES))
    return tensor_region("lmem", start, extents, steps, item, lane, channels, draw(st.integers(0, 12)))


@examples(300)
@given(tensors(), tensors())
def test_tensors_meet_where_they_have_a_byte_in_common(
    one: tuple[Region, set[Byte]], two: tuple[Region, set[Byte]]
) -> None:
    assert one[0].meets(two[0]) == two[0].meets(one[0]) == bool(one[1] & two[1])


@given(tensors())
def test_pieces_are_the_bytes_of_the_tensor(tensor: tuple[Region, set[Byte]]) -> None:
    region, touched = tensor
    found: set[Byte] = set()
    for piece in region.pieces():
        for lane, start in product(range(piece.first_lane, piece.end_lane), piece.starts()):
            found |= {(region.space, lane, int(start) + byte) for byte in range(piece.run)}
    assert found == touched


def test_tensors_of_very_many_runs_count_with_their_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never less than is touched: what is too long to compare is taken for its span."""
    one, two = (tensor_region("ddr", start, (9,), (2,), 1, 0, 1, 0)[0] for start in (0, 1))
    assert not one.meets(two)
    monkeypatch.setattr(footprint, "RUN_LIMIT", 8)
    assert one.meets(two)


# -- programs ----------------------------------------------------------------------------------------------------------

Program = tuple[list[Command], list[Command], dict[tuple[Engine, int], tuple[set[Byte], set[Byte]]]]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Few commands that touch few bytes, with any waits."""
    counts = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    streams: tuple[list[Command], list[Command]] = ([], [])
    touched: dict[tuple[Engine, int], tuple[set[Byte], set[Byte]]] = {}
    for engine in Engine:
        for number in range(1, counts[engine] + 1):
            sides = [draw(st.lists(tensors(), max_size=2)) for _ in range(2)]
            read, written = (tuple(region for region, _ in side) for side in sides)
            sets = [set[Byte]().union(*(found for _, found in side)) for side in sides]
            touched[engine, number] = (sets[0], sets[1])
            wait = draw(st.integers(0, counts[engine.other]))
            streams[engine].append(Command(KINDS[engine](read, written), number, wait))
    return *streams, touched


def orders(streams: Sequence[Sequence[Command]]) -> Iterator[list[tuple[Engine, int]]]:
    """All orders in which commands may run one by one."""

    def extend(done: tuple[int, int], path: list[tuple[Engine, int]]) -> Iterator[list[tuple[Engine, int]]]:
        if len(path) == sum(map(len, streams)):
            yield path
        for engine in Engine:
            at = done[engine]
            if at < len(streams[engine]) and streams[engine][at].wait <= done[engine.other]:
                after = (done[0] + (engine is Engine.COMPUTE), done[1] + (engine is Engine.DMA))
                yield from extend(after, [*path, (engine, at + 1)])

    return extend((0, 0), [])


@examples(200)
@given(programs())
def test_hazards_are_the_conflicts_that_occur_in_both_orders(program: Program) -> None:
    compute, dma, touched = program
    both: dict[tuple[int, int], set[bool]] = {}
    for order in orders((compute, dma)):
        place = {command: at for at, command in enumerate(order)}
        for one, two in product(range(1, len(compute) + 1), range(1, len(dma) + 1)):
            first = place[Engine.COMPUTE, one] < place[Engine.DMA, two]
            both.setdefault((one, two), set()).add(first)
    if not both:  # both engines wait for ever: loading says so
        return
    expected = set[tuple[int, int]]()
    for (one, two), found in both.items():
        (read, written), (other_read, other_written) = touched[Engine.COMPUTE, one], touched[Engine.DMA, two]
        if len(found) == 2 and (written & (other_read | other_written) or other_written & read):
            expected.add((one, two))
    assert sorted((h.compute.number, h.dma.number) for h in find_hazards(compute, dma)) == sorted(expected)


def test_blocks_of_commands_do_not_hide_hazards(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same hazards, however many commands are looked at together."""
    streams: tuple[list[Command], list[Command]] = ([], [])
    for engine in Engine:
        for at in range(60):
            place = 7 * at * (3 + engine) % 64
            regions = (Region("lmem", place, place + 5, at % 3, 4), Region("ddr", 2 * place, 2 * place + 4))
            wait = max(0, at - 9 - at % 4)
            streams[engine].append(Command(KINDS[engine](regions[:1], regions[at % 2 :]), at + 1, wait))
    expected = {(h.compute.number, h.dma.number) for h in find_hazards(*streams)}
    assert len(expected) > 100
    for block, pairs in ((1, 1), (7, 40), (1000, 1 << 20)):
        monkeypatch.setattr(hazards, "BLOCK", block)
        monkeypatch.setattr(hazards, "PAIRS", pairs)
        assert {(h.compute.number, h.dma.number) for h in find_hazards(*streams)} == expected


def test_a_hazard_is_told_in_one_sentence() -> None:
    here, there = Region("lmem", 0x40, 0x80, 0, 4), Region("lmem", 0x60, 0xA0, 2, 8)
    other = Region("lmem", 0x400, 0x480, 0, 4)
    compute = [
        Command(Compute((other,)), 1, 0),
        Command(Compute((here,)), 2, 1),
    ]
    dma = [Command(Dma((other,)), 1, 0), Command(Dma((), (there,)), 2, 0)]
    streams = DecodedStreams.of(compute, dma, "net")
    with pytest.raises(HazardError) as raised:
        streams.check("net")
    assert str(raised.value) == (
        "net: compute command 2 (touch) and DMA command 2 (touch) may run at the same time and both use lmem "
        "0x60..0x80, lanes 2..3: the first starts when DMA command 1 is done, the second waits for no compute command; "
        "let the later one wait for the earlier one"
    )
    dma[1] = Command(dma[1].instruction, 2, 2)
    DecodedStreams.of(compute, dma, "net").check("net")
