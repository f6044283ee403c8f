"""Places buffers in local memory: no two that are live at one step share an address."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from tpuc.api import LmemModel

from tpuc_passes.planning.alignment import align
from tpuc_passes.planning.schedule import LiveRanges
from tpuc_passes.planning.steps import Addresses, BankConflict, Buffer


@dataclass(frozen=True)
class Unplaced:
    """The buffers that found no gap, by the order of placing that left the fewest."""

    buffers: Sequence[Buffer]


def place_buffers(live: LiveRanges, lmem: LmemModel, retries: int = 0) -> Addresses | Unplaced:
    """An aligned address in local memory for every buffer, or those that found none whatever the order of placing.

    Banks are respected as far as the orders leave gaps for it; where none does, buffers lie as low as they can. In each
    of the `retries` those that found none come first.
    """
    banks = [lmem.bank_bytes, 0] if lmem.bank_bytes and any(buffer.conflicts for buffer in live) else [0]
    best: tuple[Sequence[Buffer], Sequence[Buffer]] | None = None
    for bank_bytes in banks:
        for order in _orders(live):
            addresses, left = _place_in_order(order, live, lmem, bank_bytes)
            if not left:
                return addresses
            best = (left, order) if best is None or len(left) < len(best[0]) else best
    assert best is not None
    left, order = best
    fewest = left
    for _ in range(retries):
        order = _below_first([*left, *order])
        addresses, left = _place_in_order(order, live, lmem, 0)
        if not left:
            return addresses
        fewest = left if len(left) < len(fewest) else fewest
    return Unplaced(fewest)


def _orders(live: LiveRanges) -> Iterator[list[Buffer]]:
    """Orders to try: long and large ones first, large ones first, and by their beginning."""
    sizes = [(buffer, buffer.size, *steps) for buffer, steps in live.items()]
    keys: tuple[Callable[[tuple[Buffer, int, int, int]], tuple[int, int]], ...] = (
        lambda one: (-one[1] * (one[3] - one[2] + 1), one[2]),
        lambda one: (-one[1], one[2]),
        lambda one: (one[2], -one[1]),
        lambda one: (one[2] - one[3], -one[1]),
    )
    for key in keys:
        yield _below_first([buffer for buffer, *_ in sorted(sizes, key=key)])


def _below_first(buffers: Sequence[Buffer]) -> list[Buffer]:
    """The same order, but a buffer that must lie above another one follows it."""
    return list(dict.fromkeys(item for buffer in buffers for item in (buffer.above, buffer) if item is not None))


def _place_in_order(
    buffers: Sequence[Buffer], live: LiveRanges, lmem: LmemModel, bank_bytes: int
) -> tuple[Addresses, Sequence[Buffer]]:
    """Addresses, and the buffers that found no gap."""
    taken: list[list[tuple[int, int]]] = [[] for _ in range(max((last for _, last in live.values()), default=0) + 1)]
    addresses: dict[Buffer, int] = {}
    left: list[Buffer] = []
    for buffer in buffers:
        first, last = live[buffer]
        size = align(buffer.size, lmem.alignment)
        low = align(addresses[buffer.above] + 1, lmem.alignment) if buffer.above in addresses else 0
        beside = set(chain.from_iterable(taken[first : last + 1]))
        gaps = _gaps(beside, size, low, lmem.lane_bytes)
        if not gaps:
            left.append(buffer)
            continue
        addresses[buffer] = start = _with_fewest_conflicts(buffer, gaps, addresses, bank_bytes)
        for step in range(first, last + 1):
            taken[step].append((start, start + size))
    return addresses, left


def _gaps(taken: Iterable[tuple[int, int]], size: int, low: int, capacity: int) -> list[tuple[int, int]]:
    """First and last possible address in each gap from `low` on that is large enough, lowest first."""
    gaps: list[tuple[int, int]] = []
    for start, end in sorted(taken):
        if start - low >= size:
            gaps.append((low, start - size))
        low = max(low, end)
    if capacity - low >= size:
        gaps.append((low, capacity - size))
    return gaps


def _with_fewest_conflicts(
    buffer: Buffer, gaps: Sequence[tuple[int, int]], addresses: Addresses, bank_bytes: int
) -> int:
    """The lowest address of a buffer that costs the fewest cycles, a bank's start or that of a gap.

    `gaps`: first and last possible address of each gap that is large enough.
    """
    others = [(item, addresses[item.other]) for item in buffer.conflicts if item.other in addresses]
    if not bank_bytes or not others:
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
