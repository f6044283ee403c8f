"""Place buffers in local memory: buffers that are live at the same step have disjoint addresses."""

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
"""First address of a buffer, and the address after its last byte."""


@dataclass(frozen=True)
class Unplaced:
    """The buffers that found no gap in the best placement order, and the number of that order."""

    buffers: Sequence[Buffer]
    order: int = 0


def place_buffers(live: LiveRanges, lmem: LmemModel) -> Addresses | None:
    """Return an aligned address in local memory for every buffer; None if no placement order succeeds.

    Bank conflicts are avoided if an order succeeds with that; otherwise buffers lie as low as possible.
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
    """Place buffers without regard to banks; returns the unplaced buffers of the best order on failure. Each of the
    `retries` places those first. `first`: the order to try before the others.
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
"""A retry ends at this multiple of the previous number of unplaced buffers."""
_ORDERS = 4
_RESTS = (8, 4, 3, 2, 1)
"""Numbers of steps for which bytes should be unused before a load reuses them, best first."""
_LONG = 64
"""Buffers that live at least this many steps are kept in a list of their own, not noted at each step."""


class _Orders:
    """The placement orders: by size times lifetime, by size, by start, and by lifetime.

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
    """Return the same order, changed so that a buffer that must lie above another one follows it."""
    if all(buffer.above is None for buffer in buffers):
        return list(dict.fromkeys(buffers))
    return list(dict.fromkeys(item for buffer in buffers for item in (buffer.above, buffer) if item is not None))


class _Taken:
    """The occupied extents: per step for short-lived buffers, with a second index by first step."""

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
        """Return the extents occupied at any of these steps, by address."""
        found = [*self._at[first], *chain.from_iterable(self._from[first + 1 : last + 1])]
        found += [place for start, end, place in self._long if start <= last and end >= first]
        return sorted(found)


def rested(addresses: Addresses, live: LiveRanges, lmem: LmemModel, loaded: AbstractSet[Buffer]) -> Addresses:
    """Move `loaded` buffers whose bytes were in use just before to the gap that has been unused longest. Returns the
    new addresses.
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
    """Return the best address of a buffer, given the buffers that began earlier and those that begin during its
    life.
    """
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
    """Return the addresses, and the buffers that found no gap; stops when `most` have found none."""
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
    """Yield first and last possible address in each sufficient gap from `low` on, lowest first."""
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
    """Return the lowest address with the fewest conflict cycles, among starts of gaps and banks.

    `gaps`: first and last possible address of each sufficient gap.
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
    """True if a buffer at `address` reaches into a bank of the other buffer at `other`."""
    spans = ((address, item.own), (other, item.others))
    (first, last), (low, high) = (
        ((at + span[0]) // bank_bytes, (at + span[1] - 1) // bank_bytes) for at, span in spans
    )
    return first <= high and low <= last
