"""Memory accesses of commands, in a form that quickly rules out conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.machine.instruction import Instruction, Region

BLOCK_BITS, BLOCKS = 6, 512
"""Memory in blocks of 64 bytes; every 512th block shares a bit."""
ALL_BLOCKS = (1 << BLOCKS) - 1


@dataclass(frozen=True, slots=True)
class Touched:
    """The regions a command reads and writes, exactly and as block sets that quickly rule out overlaps."""

    reads: Sequence[Region]
    writes: Sequence[Region]
    read_blocks: int
    written_blocks: int

    @classmethod
    def by(cls, instruction: Instruction) -> Touched:
        """The accesses of `instruction`."""
        return cls.of(instruction.reads(), instruction.writes())

    @classmethod
    def of(cls, reads: Sequence[Region], writes: Sequence[Region]) -> Touched:
        """The given regions."""
        return cls(reads, writes, _blocks_of(reads), _blocks_of(writes))

    def conflict(self, other: Touched) -> Region | None:
        """A region that one of the two writes and the other accesses, one of its own first; None if they are
        independent.
        """
        written = self.written_blocks
        if not (other.written_blocks & (self.read_blocks | written) or other.read_blocks & written):
            return None
        for writer, toucher in ((self, other), (other, self)):
            for region in writer.writes:
                if any(region.overlaps(one) for one in (*toucher.reads, *toucher.writes)):
                    return region
        return None


def _blocks_of(regions: Sequence[Region]) -> int:
    """One bit per block; blocks of different spaces and lanes, and distant ones, share bits."""
    found = 0
    for region in regions:
        first = region.start >> BLOCK_BITS
        count = ((region.end - 1) >> BLOCK_BITS) - first + 1
        if count >= BLOCKS:
            return ALL_BLOCKS
        bits = ((1 << count) - 1) << first % BLOCKS
        found |= bits & ALL_BLOCKS | bits >> BLOCKS
    return found
