"""Places buffers in local memory: no two that are live at one step share an address."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from tpuc.api import LmemModel

from tpuc_passes.planning.alignment import align
from tpuc_passes.planning.schedule import LiveRanges
from tpuc_passes.planning.steps import Addresses, BankConflict, Buffer


def place_buffers(live: LiveRanges, lmem: LmemModel) -> Addresses | None:
    """An aligned address in local memory for every buffer; None when no order of placing them led to that.

    Banks are respected as far as the orders leave gaps for it; where none does, buffers lie as low as they can.
    """
    banks = [lmem.bank_bytes, 0] if lmem.bank_bytes and any(buffer.conflicts for buffer in live) else [0]
    for bank_bytes in banks:
        for order in _orders(live):
            addresses = _place_in_order(order, live, lmem, bank_bytes)
            if addresses is not None:
                return addresses
    return None


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


def _place_in_order(buffers: Sequence[Buffer], live: LiveRanges, lmem: LmemModel, bank_bytes: int) -> Addresses | None:
    alignment, capacity = lmem.alignment, lmem.lane_bytes
    count = len(buffers)
    first, last = np.array([live[buffer] for buffer in buffers]).reshape(-1, 2).T
    size = np.array([align(buffer.size, alignment) for buffer in buffers])
    start = np.zeros(count, np.int64)
    addresses: dict[Buffer, int] = {}
    for index, buffer in enumerate(buffers):
        beside = np.flatnonzero((first[:index] <= last[index]) & (last[:index] >= first[index]))
        beside = beside[np.argsort(start[beside], kind="stable")]
        low = 0 if buffer.above is None else align(addresses[buffer.above] + 1, alignment)
        ends = np.maximum.accumulate(np.concatenate(([low], start[beside] + size[beside])))
        gaps = np.concatenate((start[beside], [capacity])) - ends
        fitting = np.flatnonzero(gaps >= size[index])
        if not fitting.size:
            return None
        gaps_at = [(int(ends[gap]), int(ends[gap] + gaps[gap] - size[index])) for gap in fitting]
        start[index] = addresses[buffer] = _with_fewest_conflicts(buffer, gaps_at, addresses, bank_bytes)
    return addresses


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
