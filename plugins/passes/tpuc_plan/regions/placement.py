"""Places buffers in local memory: no two that are live at one step share an address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np
from tpuc.api import LmemModel

from tpuc_plan.planners.alignment import align
from tpuc_plan.regions.schedule import LiveRanges
from tpuc_plan.tasks.steps import Addresses, BankConflict, Buffer

Extent: TypeAlias = "tuple[int, int]"
"""The first address of a buffer, and that behind its last one."""


@dataclass(frozen=True)
class Unplaced:
    """The buffers that found no gap, by the order of placing that left the fewest, and the number of that order."""

    buffers: Sequence[Buffer]
    order: int = 0


def place_buffers(live: LiveRanges, lmem: LmemModel) -> Addresses | None:
    """An aligned address in local memory for every buffer; None when no order of placing them led to that.

    Banks are respected as far as the orders leave gaps for it; where none does, buffers lie as low as they can.
    """
    orders = _Orders(live)
    banks = [lmem.bank_bytes, 0] if lmem.bank_bytes and any(buffer.conflicts for buffer in live) else [0]
    for bank_bytes in banks:
        for number in range(_ORDERS):
            addresses, left = _place_in_order(orders[number], live, lmem, bank_bytes, 1)
            if not left:
                return addresses
    return None


def place_most(live: LiveRanges, lmem: LmemModel, retries: int, first: int = 0) -> Addresses | Unplaced:
    """As `place_buffers` without regard to banks, or the buffers that found no place. In each of the `retries` they
    come first. `first`: the order that is tried before the others.
    """
    orders = _Orders(live)
    fewest, best = Unplaced(tuple(live)), orders[first]
    for number in sorted(range(_ORDERS), key=lambda number: number != first):
        order = orders[number]
        addresses, left = _place_in_order(order, live, lmem, 0, len(fewest.buffers))
        if not left:
            return addresses
        if len(left) < len(fewest.buffers):
            fewest, best = Unplaced(left, number), order
    left = fewest.buffers
    for _ in range(retries):
        best = _below_first([*left, *best])
        addresses, left = _place_in_order(best, live, lmem, 0, _HOPELESS * len(left))
        if not left:
            return addresses
        fewest = Unplaced(left, fewest.order) if len(left) < len(fewest.buffers) else fewest
    return fewest


_HOPELESS = 2
"""Times as many buffers without a place as before, at which a retry ends."""
_ORDERS = 4
_RESTS = (8, 4, 3, 2, 1)
"""Steps for which bytes had better been unused before something comes into them, the best first."""
_LONG = 64
"""Steps from which on a buffer is not noted at each of them."""


class _Orders:
    """The orders of placing: long and large buffers first, large ones first, by their beginning, and long ones first.
    A buffer that must lie above another one follows it.
    """

    def __init__(self, live: LiveRanges) -> None:
        self._buffers = list(live)
        self._known: dict[int, list[Buffer]] = {}
        sizes = np.array([buffer.size for buffer in self._buffers], np.int64)
        firsts, lasts = np.array([*live.values()], np.int64).reshape(-1, 2).T
        self._keys = (
            (-sizes * (lasts - firsts + 1), firsts),
            (-sizes, firsts),
            (firsts, -sizes),
            (firsts - lasts, -sizes),
        )

    def __getitem__(self, number: int) -> list[Buffer]:
        if number not in self._known:
            indices: list[int] = np.lexsort(self._keys[number][::-1]).tolist()
            self._known[number] = _below_first([self._buffers[index] for index in indices])
        return self._known[number]


def _below_first(buffers: Sequence[Buffer]) -> list[Buffer]:
    """The same order, but a buffer that must lie above another one follows it."""
    if all(buffer.above is None for buffer in buffers):
        return list(dict.fromkeys(buffers))
    return list(dict.fromkeys(item for buffer in buffers for item in (buffer.above, buffer) if item is not None))


class _Taken:
    """What lies where: buffers of few steps at each of them, and by the first one."""

    def __init__(self, steps: int) -> None:
        self._at: list[list[Extent]] = [[] for _ in range(steps)]
        self._from: list[list[Extent]] = [[] for _ in range(steps)]
        self._long: list[tuple[int, int, Extent]] = []

    def add(self, first: int, last: int, place: Extent) -> None:
        if last - first >= _LONG:
            self._long.append((first, last, place))
            return
        self._from[first].append(place)
        for at in self._at[first : last + 1]:
            at.append(place)

    def between(self, first: int, last: int) -> list[Extent]:
        """Everything that lies there at any of these steps, by address."""
        found = [*self._at[first], *chain.from_iterable(self._from[first + 1 : last + 1])]
        found += [place for start, end, place in self._long if start <= last and end >= first]
        return sorted(found)


def rested(addresses: Addresses, live: LiveRanges, lmem: LmemModel, loaded: AbstractSet[Buffer]) -> Addresses:
    """Other addresses for `loaded` buffers in whose bytes something lay just before: the gap that was unused for
    longest.
    """
    moved = dict(addresses)
    bound = {buffer for one in live if one.above is not None for buffer in (one, one.above)}
    begins: dict[int, list[Buffer]] = {}
    for buffer, (first, _) in live.items():
        begins.setdefault(first, []).append(buffer)
    recent: list[Buffer] = []
    for first in sorted(begins):
        recent = [buffer for buffer in recent if live[buffer][1] >= first - _RESTS[0]] + begins[first]
        for buffer in begins[first]:
            if buffer in loaded and buffer not in bound:
                after = range(first + 1, live[buffer][1] + 1)
                later = [one for step in after for one in begins.get(step, ())]
                moved[buffer] = _rested_longest(buffer, recent, later, moved, live, lmem)
    return moved


def _rested_longest(
    buffer: Buffer,
    recent: Sequence[Buffer],
    later: Sequence[Buffer],
    addresses: Addresses,
    live: LiveRanges,
    lmem: LmemModel,
) -> int:
    """Where a buffer lies best, besides those that began no later and those that begin during its steps."""
    start, end = _extent(buffer, addresses, lmem)
    for rest in _RESTS:
        until = live[buffer][0] - rest
        others = [one for one in recent if one is not buffer and live[one][1] >= until]
        taken = sorted(_extent(one, addresses, lmem) for one in (*others, *later))
        if all(stop <= start or begin >= end for begin, stop in taken):
            return start
        gap = next(_gaps(taken, end - start, 0, lmem.lane_bytes), None)
        if gap is not None:
            return gap[0]
    return start


def _extent(buffer: Buffer, addresses: Addresses, lmem: LmemModel) -> Extent:
    return addresses[buffer], addresses[buffer] + align(buffer.size, lmem.alignment)


def _place_in_order(
    buffers: Sequence[Buffer], live: LiveRanges, lmem: LmemModel, bank_bytes: int, most: int
) -> tuple[Addresses, Sequence[Buffer]]:
    """Addresses, and the buffers that found no gap, of which it stops at so many."""
    taken = _Taken(max((last for _, last in live.values()), default=0) + 1)
    addresses: dict[Buffer, int] = {}
    left: list[Buffer] = []
    for buffer in buffers:
        first, last = live[buffer]
        size = align(buffer.size, lmem.alignment)
        low = align(addresses[buffer.above] + 1, lmem.alignment) if buffer.above in addresses else 0
        gaps = _gaps(taken.between(first, last), size, low, lmem.lane_bytes)
        lowest = next(gaps, None)
        if lowest is None:
            left.append(buffer)
            if len(left) >= most:
                break
            continue
        start = lowest[0]
        if bank_bytes and buffer.conflicts:
            start = _with_fewest_conflicts(buffer, [lowest, *gaps], addresses, bank_bytes)
        addresses[buffer] = start
        taken.add(first, last, (start, start + size))
    return addresses, left


def _gaps(taken: Sequence[Extent], size: int, low: int, capacity: int) -> Iterator[tuple[int, int]]:
    """First and last possible address in each gap from `low` on that is large enough, lowest first."""
    for start, end in taken:
        if start - low >= size:
            yield low, start - size
        if end > low:
            low = end
    if capacity - low >= size:
        yield low, capacity - size


def _with_fewest_conflicts(
    buffer: Buffer, gaps: Sequence[tuple[int, int]], addresses: Addresses, bank_bytes: int
) -> int:
    """The lowest address of a buffer that costs the fewest cycles, a bank's start or that of a gap.

    `gaps`: first and last possible address of each gap that is large enough.
    """
    others = [(item, addresses[item.other]) for item in buffer.conflicts if item.other in addresses]
    if not others:
        return gaps[0][0]
    best: tuple[int, int] | None = None
    for low, high in gaps:
        at = low
        while at <= high:
            cost = sum(item.cycles for item, there in others if _meet(item, at, there, bank_bytes))
            if best is None or cost < best[0]:
                best = (cost, at)
            if cost == 0:
                return at
            at = (at // bank_bytes + 1) * bank_bytes
    assert best is not None
    return best[1]


def _meet(item: BankConflict, address: int, other: int, bank_bytes: int) -> bool:
    """Does a buffer at an address reach into the bank of the other one at its?"""
    spans = ((address, item.own), (other, item.others))
    (first, last), (low, high) = (
        ((at + span[0]) // bank_bytes, (at + span[1] - 1) // bank_bytes) for at, span in spans
    )
    return first <= high and low <= last
