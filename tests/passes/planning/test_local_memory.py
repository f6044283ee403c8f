"""Local memory: where parts of tensors lie, and that no two buffers of one step share an address."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import LmemModel, LmemOverflow, Phase, Shape4
from tpuc_plan.regions.placement import Unplaced, place_buffers, place_most
from tpuc_plan.regions.region import Region, schedule_and_place
from tpuc_plan.tasks.steps import Addresses, Buffer, Step, Steps, add_bank_conflict

from tests.families import each
from tests.passes.planning.tiny import TinyLmem, conv_task

ITEM = 2


def placed(buffers: list[Buffer], lmem: LmemModel) -> Addresses | None:
    """Addresses of buffers that live as they say."""
    return place_buffers({buffer: (buffer.first, buffer.last) for buffer in buffers}, lmem)


class Banked(TinyLmem):
    """The same with banks."""

    bank_bytes = 64


def _addresses(lmem: LmemModel, shape: Shape4) -> np.ndarray:
    """The lane and the byte in it of every element, by the rule of the layout: channel c in lane c mod 4, planes padded
    to 4 bytes, batches and groups of lanes behind one another.
    """
    _, c, h, w = shape
    plane = -(-h * w * ITEM // 4) * 4
    places = np.zeros((*shape, 2), np.int64)
    for index in itertools.product(*(range(extent) for extent in shape)):
        batch, channel, row, column = index
        places[index] = (
            channel % lmem.lanes,
            (batch * -(-c // lmem.lanes) + channel // lmem.lanes) * plane + (row * w + column) * ITEM,
        )
    return places


PARTS = st.tuples(*(st.tuples(st.integers(1, size), st.integers(0, size)) for size in (2, 9, 4, 5)))


@given(PARTS, PARTS)
def test_a_part_lies_where_the_elements_of_the_whole_lie(
    whole: tuple[tuple[int, int], ...], wanted: tuple[tuple[int, int], ...]
) -> None:
    lmem = TinyLmem()
    n, c, h, w = (size for size, _ in whole)
    start: list[int] = []
    extent: list[int] = []
    for size, (count, begin) in zip((n, c, h, w), wanted, strict=True):
        start.append(begin % size)
        extent.append(min(count, size - begin % size))
    window = tuple(slice(at, at + count) for at, count in zip(start, extent, strict=True))
    places = _addresses(lmem, (n, c, h, w))[window]
    a, b, d, e = extent
    own = _addresses(lmem, (a, b, d, e))
    first: Shape4 = (start[0], start[1], start[2], start[3])
    offset = lmem.part_offset("aligned", (n, c, h, w), ITEM, first, (a, b, d, e))
    if offset is not None:
        assert (places == own + np.array((0, offset))).all()
        assert offset % lmem.alignment == 0
    else:
        same = (places[..., 0] == own[..., 0]).all() and np.ptp(places[..., 1] - own[..., 1]) == 0
        assert not same or (places[0, 0, 0, 0, 1]) % lmem.alignment
    part = lmem.part_strides("aligned", (n, c, h, w), ITEM, first, (a, b, d, e))
    # Planes are padded by less than an alignment here, so only another lane is in the way.
    assert (part is None) == (start[1] % lmem.lanes > 0)
    if part is not None:
        at, strides = part
        for index in itertools.product(range(a), range(b), range(d), range(e)):
            steps = (index[0], index[1] // lmem.lanes, index[2], index[3])
            expected = at + ITEM * sum(i * step for i, step in zip(steps, strides, strict=True))
            assert tuple(places[index]) == (index[1] % lmem.lanes, expected)


LIVES = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 12), st.integers(0, 4)), min_size=1, max_size=25)


@given(LIVES)
def test_buffers_of_one_step_never_overlap(lives: list[tuple[int, int, int]]) -> None:
    buffers = [Buffer(size, first, first + length) for size, first, length in lives]
    addresses = placed(buffers, TinyLmem())
    if addresses is None:
        busiest = max(sum(-(-b.size // 4) * 4 for b in buffers if b.first <= t <= b.last) for t in range(17))
        assert busiest > 128  # half of the memory: below that every order finds room for intervals this short
        return
    for one, two in itertools.combinations(buffers, 2):
        if one.first <= two.last and two.first <= one.last:
            assert addresses[one] + one.size <= addresses[two] or addresses[two] + two.size <= addresses[one]
    assert all(at % 4 == 0 and at >= 0 and at + buffer.size <= 256 for buffer, at in addresses.items())
    assert len(addresses) == len(buffers)


def test_a_buffer_that_must_lie_above_another_one_does() -> None:
    low = Buffer(8, 0, 3)
    high = Buffer(200, 0, 3, above=low)
    addresses = placed([high, low], TinyLmem())
    assert addresses is not None
    assert addresses[high] > addresses[low]


def test_buffers_begin_in_different_banks_where_there_is_room() -> None:
    one, two = Buffer(8, 0, 1), Buffer(8, 0, 1)
    add_bank_conflict((one, 0), (0, 1), (two, 0), (0, 1), cycles=10)
    addresses = placed([one, two], Banked())
    assert addresses is not None
    assert addresses[one] // 64 != addresses[two] // 64


def test_the_costliest_pair_of_buffers_lies_in_different_banks_where_not_all_can() -> None:
    full = Buffer(128, 0, 1)  # half of the memory: two banks are left
    one, two, three = (Buffer(60, 0, 1), Buffer(8, 0, 1), Buffer(8, 0, 1))
    add_bank_conflict((one, 0), (0, 60), (two, 0), (0, 1), cycles=10)
    add_bank_conflict((two, 0), (0, 1), (three, 0), (0, 1), cycles=1)
    add_bank_conflict((one, 0), (0, 60), (three, 0), (0, 1), cycles=5)
    addresses = placed([full, one, two, three], Banked())
    assert addresses is not None
    assert addresses[one] // 64 not in (addresses[two] // 64, addresses[three] // 64)


def test_conflicts_of_two_buffers_add_up_on_both_sides() -> None:
    one, two = Buffer(8, 0, 1), Buffer(8, 0, 1)
    for cycles in (10, 3):
        add_bank_conflict((one, 2), (0, 4), (two, 0), (0, 1), cycles=cycles)
    add_bank_conflict((two, 0), (0, 1), (one, 2), (0, 4), cycles=4)
    assert [(item.own, item.other, item.others, item.cycles) for item in one.conflicts] == [((2, 6), two, (0, 1), 17)]
    assert [(item.own, item.other, item.others, item.cycles) for item in two.conflicts] == [((0, 1), one, (2, 6), 17)]


def test_what_found_no_place_is_told_and_comes_first_in_the_next_try() -> None:
    buffers = [Buffer(32, 2, 4), Buffer(160, 1, 1), Buffer(64, 0, 2), Buffer(128, 3, 3), Buffer(96, 2, 3)]
    live = {buffer: (buffer.first, buffer.last) for buffer in buffers}
    assert place_buffers(live, TinyLmem()) is None
    found = place_most(live, TinyLmem(), retries=0)
    assert isinstance(found, Unplaced)
    assert len(found.buffers) == 1
    again = place_most(live, TinyLmem(), retries=4)
    assert not isinstance(again, Unplaced)
    for one, two in itertools.combinations(buffers, 2):
        if one.first <= two.last and two.first <= one.last:
            assert again[one] + one.size <= again[two] or again[two] + two.size <= again[one]


@each(("size", "expected"), [(128, True), (132, False)])
def test_a_step_that_does_not_fit_is_told(size: int, expected: bool) -> None:
    assert (placed([Buffer(128, 0, 0), Buffer(size, 0, 0)], TinyLmem()) is not None) == expected


@each(
    ("names", "nodes", "which"),
    [(["conv"], "node 'conv': its", "it"), (["b", "a", "c"], "nodes 'a' and 2 more: their", "the largest one")],
)
def test_buffers_that_cannot_be_placed_name_their_nodes(names: list[str], nodes: str, which: str) -> None:
    tasks = [conv_task(1, 4, 4, 4, 4, name=name) for name in names]
    steps = [Step(task, task.tiles[0], Phase.ONLY, (), (), (), (), (), (), 1) for task in tasks]
    with pytest.raises(LmemOverflow) as caught:
        schedule_and_place(Region(Steps(steps, [Buffer(260, 0, 0)])), tasks[0].chip)
    assert str(caught.value) == (
        f"{nodes} buffers, up to 260 bytes at once, cannot be placed in 256 bytes of local memory per lane; "
        f"split {which} in the network"
    )
