"""Places buffers in local memory: no two that live at one step share an address."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tpuc.api import LmemModel

from tpuc_passes.planning.steps import Buffer


def place_buffers(buffers: Sequence[Buffer], lmem: LmemModel) -> bool:
    """Give every buffer an aligned address in local memory. False when no order of placing them led to that."""
    for order in _orders(buffers):
        for buffer in order:
            buffer.address = -1
        if _place_in_order(order, lmem):
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


def _place_in_order(buffers: Sequence[Buffer], lmem: LmemModel) -> bool:
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
        start[index] = buffer.address = _in_another_bank(buffer, gaps_at, lmem.bank_bytes)
    return True


def _in_another_bank(buffer: Buffer, gaps: Sequence[tuple[int, int]], bank_bytes: int) -> int:
    """The lowest address at which a buffer begins in no bank that it should avoid; the lowest of all if there is none.

    `gaps`: first and last possible address of each gap that is large enough.
    """
    if not bank_bytes:
        return gaps[0][0]
    avoided = {other.address // bank_bytes for other in buffer.apart if other.address >= 0}
    for low, high in gaps:
        at = low
        while at <= high:
            if at // bank_bytes not in avoided:
                return at
            at = (at // bank_bytes + 1) * bank_bytes
    return gaps[0][0]
