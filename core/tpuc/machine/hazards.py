"""Prove that the wait ids of two in-order engines order every pair of conflicting commands, or list the unordered
pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuc.machine.instruction import Command, Region

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bools = npt.NDArray[np.bool_]
    Integers = npt.NDArray[np.int64]

BLOCK = 64
"""Number of DMA commands processed together."""
PAIRS = 1 << 20
"""Number of region pairs compared together."""
COLUMNS = 6
SPACE_BITS = 54
"""Address bits per memory space; spaces are placed one after the other on one axis."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """A compute command and a DMA command that may run at the same time and conflict on `region`.

    `dma_done`: DMA commands that have certainly finished when the compute command starts; `compute_done` likewise.
    """

    compute: Command
    dma: Command
    region: Region
    dma_done: int
    compute_done: int


def commands_done(commands: Sequence[Command]) -> list[int]:
    """For every command of one engine, the number of the other engine's commands that have finished when it starts.

    Engines are in order, so a command starts after everything its predecessors waited for, and a finished command
    implies that all before it have finished. Chains of several waits add nothing: they end in a wait of this engine, at
    this command or before, for a command no earlier than the first one.
    """
    done: list[int] = []
    highest = 0
    for command in commands:
        highest = max(highest, command.wait)
        done.append(highest)
    return done


def find_hazards(compute: Sequence[Command], dma: Sequence[Command]) -> list[Hazard]:
    """All unordered conflicts between the two streams of one command group, one per pair of commands."""
    return list(iterate_hazards(compute, dma))


def iterate_hazards(compute: Sequence[Command], dma: Sequence[Command]) -> Iterator[Hazard]:
    """Yield unordered conflicts one by one. If there are none, every order that the waits allow gives the same bits.

    Counts of finished commands only grow, so the DMA commands that may overlap a compute command are one contiguous
    range, and so are the compute commands that may overlap a block of DMA commands. Their regions are looked up among
    the sorted spans of the block; only overlapping spans are compared pair by pair, and then byte by byte.
    """
    import numpy as np

    if not compute or not dma:
        return
    dma_done, compute_done = commands_done(compute), commands_done(dma)
    numbers = np.arange(1, len(compute) + 1)
    begins = np.array(dma_done, np.int64)
    ends = np.searchsorted(np.array(compute_done, np.int64), numbers)
    spaces: dict[str, int] = {}
    mine, theirs = _Touches(compute, spaces), _Touches(dma, spaces)
    for start in range(0, len(dma), BLOCK):
        first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(begins, min(start + BLOCK, len(dma))))
        if first >= last:
            continue
        rows, block = mine.of(first, last), theirs.of(start, min(start + BLOCK, len(dma)))
        rows = rows[mine.near(rows, theirs, block)]
        found: set[tuple[int, int]] = set()
        for row, other in mine.overlaps(rows, theirs, block, begins, ends):
            i, j = int(mine.owner[row]), int(theirs.owner[other])
            one, two = mine.region(row), theirs.region(other)
            if (i, j) not in found and one.meets(two):
                found.add((i, j))
                yield Hazard(compute[i], dma[j], _common(one, two), dma_done[i], compute_done[j])


def _common(one: Region, two: Region) -> Region:
    """The intersection of two regions."""
    start, end = max(one.start, two.start), min(one.end, two.end)
    return Region(one.space, start, end, max(one.first_lane, two.first_lane), min(one.end_lane, two.end_lane))


class _Touches:
    """All regions of a stream as columns, one row each: command, start, end, and whether it is written."""

    def __init__(self, commands: Sequence[Command], spaces: dict[str, int]) -> None:
        import numpy as np

        self._commands = commands
        cells: list[int] = []
        counts = [0]
        for index, command in enumerate(commands):
            instruction = command.instruction
            for regions, writes in ((instruction.reads(), False), (instruction.writes(), True)):
                for region in regions:
                    if region.space not in spaces:
                        spaces[region.space] = len(spaces) << SPACE_BITS
                    base = spaces[region.space]
                    cells += (index, base + region.start, base + region.end, region.first_lane, region.end_lane, writes)
            counts.append(len(cells) // COLUMNS)
        columns = np.ascontiguousarray(np.array(cells, np.int64).reshape(-1, COLUMNS).T)
        self.owner, self.start, self.end, self.first_lane, self.end_lane = columns[:5]
        self.writes = columns[5] != 0
        self._counts = counts

    def region(self, row: int) -> Region:
        """The region of a row; not cached, since few are requested twice."""
        index = int(self.owner[row])
        instruction = self._commands[index].instruction
        return (*instruction.reads(), *instruction.writes())[row - self._counts[index]]

    def of(self, first: int, last: int) -> Integers:
        """The rows of commands `[first, last)`."""
        import numpy as np

        return np.arange(self._counts[first], self._counts[last])

    def near(self, rows: Integers, other: _Touches, block: Integers) -> Bools:
        """The `rows` that overlap any span of the other stream's `block` while one of the two writes."""
        written = block[other.writes[block]]
        return self._meets_any(rows, other, written) | (self.writes[rows] & self._meets_any(rows, other, block))

    def overlaps(
        self, rows: Integers, other: _Touches, block: Integers, begins: Integers, ends: Integers
    ) -> Iterator[tuple[int, int]]:
        """Pairs of a row of `rows` and one of `block` whose boxes overlap, where one writes and the commands may run at
        the same time: those of the other stream from `begins` to `ends` for each command of this one.
        """
        import numpy as np

        for at in range(0, len(rows), PAIRS // max(len(block), 1) + 1):
            part = rows[at : at + PAIRS // max(len(block), 1) + 1][:, None]
            owner, others = self.owner[part], other.owner[block]
            meets = (self.start[part] < other.end[block]) & (other.start[block] < self.end[part])
            meets &= (self.first_lane[part] < other.end_lane[block]) & (other.first_lane[block] < self.end_lane[part])
            meets &= (begins[owner] <= others) & (others < ends[owner])
            meets &= self.writes[part] | other.writes[block]
            for row, column in np.argwhere(meets):
                yield int(part[row, 0]), int(block[column])

    def _meets_any(self, rows: Integers, other: _Touches, block: Integers) -> Bools:
        import numpy as np

        block = block[np.argsort(other.start[block], kind="stable")]
        # Of the spans that start before the end of a row, the one that reaches furthest decides.
        furthest = np.concatenate([[-1], np.maximum.accumulate(other.end[block])])
        return furthest[np.searchsorted(other.start[block], self.end[rows])] > self.start[rows]
