"""Places buffers in local memory: no two that live at one step share an address."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tpuc.api import LmemModel

from tpuc_passes.planning.steps import Apart, Buffer


def place_buffers(buffers: Sequence[Buffer], lmem: LmemModel) -> bool:
    """Give every buffer an aligned address in local memory. False when no order of placing them led to that.

    Banks are respected as far as the orders leave gaps for it; where none does, buffers lie as low as they can.
    """
    banks = [lmem.bank_bytes, 0] if lmem.bank_bytes and any(buffer.apart for buffer in buffers) else [0]
    for bank_bytes in banks:
        for order in _orders(buffers):
            for buffer in order:
                buffer.address = -1
            if _place_in_order(order, lmem, bank_bytes):
                return True
    return False


def _orders(buffers: Sequence[Buffer]) -> list[list[Buffer]]:
    """Orders to try: long and large ones first, large ones first, and by their beginning."""
    keys: tuple[Callable[[Buffer], tuple[int, int]], ...] = (
        lambda b: (-b.size * (b.last - b.first + 1), b.first),
        lambda b: (-b.size, b.first),
        lambda b: (b.first, -b.size),
        lambda b: (b.first - b.last, -b.size),
    )
    return [_below_first(sorted(buffers, key=key)) for key in keys]


def _below_first(buffers: Sequence[Buffer]) -> list[Buffer]:
    """The same order, but a buffer that must lie above another one follows it."""
    done: set[int] = set()
    order: list[Buffer] = []
    for buffer in buffers:
        for item in (buffer.above, buffer):
            if item is not None and id(item) not in done:
                done.add(id(item))
                order.append(item)
    return order


def _place_in_order(buffers: Sequence[Buffer], lmem: LmemModel, bank_bytes: int) -> bool:
    alignment, capacity = lmem.alignment, lmem.lane_bytes
    count = len(buffers)
    first = np.array([buffer.first for buffer in buffers])
    last = np.array([buffer.last for buffer in buffers])
    size = np.array([-(-buffer.size // alignment) * alignment for buffer in buffers])
    start = np.zeros(count, np.int64)
    for index, buffer in enumerate(buffers):
        beside = np.flatnonzero((first[:index] <= last[index]) & (last[:index] >= first[index]))
        beside = beside[np.argsort(start[beside], kind="stable")]
        low = 0 if buffer.above is None else -(-(buffer.above.address + 1) // alignment) * alignment
        ends = np.maximum.accumulate(np.concatenate(([low], start[beside] + size[beside])))
        gaps = np.concatenate((start[beside], [capacity])) - ends
        fitting = np.flatnonzero(gaps >= size[index])
        if not fitting.size:
            return False
        gaps_at = [(int(ends[gap]), int(ends[gap] + gaps[gap] - size[index])) for gap in fitting]
        start[index] = buffer.address = _with_fewest_conflicts(buffer, gaps_at, bank_bytes)
    return True


def _with_fewest_conflicts(buffer: Buffer, gaps: Sequence[tuple[int, int]], bank_bytes: int) -> int:
    """The lowest address of a buffer that costs the fewest cycles, a bank's start or that of a gap.

    `gaps`: first and last possible address of each gap that is large enough.
    """
    others = [item for item in buffer.apart if item.other.address >= 0] if bank_bytes else []
    if not others:
        return gaps[0][0]
    best: tuple[int, int] | None = None
    for low, high in gaps:
        at = low
        while at <= high:
            cost = sum(item.cycles for item in others if _meet(item, at, bank_bytes))
            if best is None or cost < best[0]:
                best = (cost, at)
            if cost == 0:
                return at
            at = (at // bank_bytes + 1) * bank_bytes
    assert best is not None
    return best[1]


def _meet(item: Apart, address: int, bank_bytes: int) -> bool:
    """Does a buffer at that address reach into a bank that it should avoid?"""
    spans = ((address, item.own), (item.other.address, item.others))
    (first, last), (low, high) = (
        ((at + span[0]) // bank_bytes, (at + span[1] - 1) // bank_bytes) for at, span in spans
    )
    return first <= high and low <= last
