"""The exact bytes of a strided tensor, for checks where the span of a region is too coarse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

RUN_LIMIT = 1 << 20
"""Pieces with more runs are approximated by their span, and may seem to meet bytes in their gaps."""

Loop = tuple[int, int]
"""Number of iterations, and step in bytes."""


class RegionTensor(NamedTuple):
    """The elements of a tensor from the start of its region: extents and byte steps, without those of the channels.

    In a memory of lanes, channel `c` lies in lane `(lane + c) mod lanes`, `slot_step` bytes further for each wrap
    around the lanes. In other memories `lanes` is 0, and the channels are among the extents.
    """

    item_bytes: int
    extents: Sequence[int]
    steps: Sequence[int]
    lane: int = 0
    channels: int = 0
    slot_step: int = 0
    lanes: int = 0


class Piece(NamedTuple):
    """Runs of `run` bytes, the same in lanes `[first_lane, end_lane)`: at `start` plus the steps of the loops."""

    first_lane: int
    end_lane: int
    start: int
    run: int
    loops: Sequence[Loop]

    @property
    def runs(self) -> int:
        """The number of runs."""
        count = 1
        for times, _ in self.loops:
            count *= times
        return count

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.start + self.run + sum((times - 1) * step for times, step in self.loops)

    def starts(self) -> npt.NDArray[np.int64]:
        """The addresses of the runs, ascending."""
        import numpy as np

        found = np.array([self.start], np.int64)
        for times, step in self.loops:
            found = (found[:, None] + np.arange(times, dtype=np.int64) * step).reshape(-1)
        found.sort()
        return found

    def meets(self, other: Piece) -> bool:
        """True if both contain a common byte. Pieces with too many runs are approximated by their span."""
        import numpy as np

        if self.first_lane >= other.end_lane or other.first_lane >= self.end_lane:
            return False
        if self.start >= other.end or other.start >= self.end:
            return False
        if not self.loops and not other.loops:
            return True
        if max(self.runs, other.runs) > RUN_LIMIT:
            return True
        fewer, more = (self, other) if self.runs <= other.runs else (other, self)
        starts, targets = fewer.starts(), more.starts()
        # The last run that starts before the end of one of the others is the one that reaches furthest.
        before = np.searchsorted(targets, starts + fewer.run) - 1
        return bool(((before >= 0) & (targets[before] + more.run > starts)).any())


def pieces_of(start: int, tensor: RegionTensor) -> Iterator[Piece]:
    """The bytes of a tensor whose region begins at `start`."""
    if not tensor.lanes:
        yield _piece(0, 1, start, tensor, 0, 1)
        return
    end = tensor.lane + tensor.channels
    last = (end - 1) // tensor.lanes
    if last <= 0:
        yield _piece(tensor.lane, end, start, tensor, 0, 1)
        return
    yield _piece(tensor.lane, tensor.lanes, start, tensor, 0, 1)
    if last > 1:
        yield _piece(0, tensor.lanes, start, tensor, 1, last - 1)
    yield _piece(0, end - last * tensor.lanes, start, tensor, last, 1)


def _piece(first_lane: int, end_lane: int, start: int, tensor: RegionTensor, slot: int, slots: int) -> Piece:
    """Slots `[slot, slot + slots)` with adjacent elements joined into runs."""
    run = tensor.item_bytes
    loops: list[Loop] = []
    every = [*zip(tensor.extents, tensor.steps, strict=True), (slots, tensor.slot_step)]
    for times, step in sorted(((t, s) for t, s in every if t > 1 and s), key=lambda loop: loop[1]):
        if not loops and step <= run:
            run += (times - 1) * step
        elif loops and step == loops[-1][0] * loops[-1][1]:
            loops[-1] = (loops[-1][0] * times, loops[-1][1])
        else:
            loops.append((times, step))
    return Piece(first_lane, end_lane, start + slot * tensor.slot_step, run, tuple(loops))
