"""What commands touch, in a form that tells quickly which of them cannot be in each other's way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.machine.instruction import Instruction, Region

BLOCK_BITS, BLOCKS = 6, 512
"""Memory in blocks of 64 bytes, of which every 512th is the same bit."""
ALL_BLOCKS = (1 << BLOCKS) - 1


@dataclass(frozen=True, slots=True)
class Touched:
    """What a command reads and writes, exactly and as sets of blocks of memory that say quickly what cannot overlap."""

    reads: Sequence[Region]
    writes: Sequence[Region]
    read_blocks: int
    written_blocks: int

    @classmethod
    def by(cls, instruction: Instruction) -> Touched:
        """What `instruction` says of itself."""
        return cls.of(instruction.reads(), instruction.writes())

    @classmethod
    def of(cls, reads: Sequence[Region], writes: Sequence[Region]) -> Touched:
        """These regions."""
        return cls(reads, writes, _blocks_of(reads), _blocks_of(writes))

    def conflict(self, other: Touched) -> Region | None:
        """A region that one of both writes and the other touches, one of its own first; None: any order will do."""
        written = self.written_blocks
        if not (other.written_blocks & (self.read_blocks | written) or other.read_blocks & written):
            return None
        for writer, toucher in ((self, other), (other, self)):
            for region in writer.writes:
                if any(region.overlaps(one) for one in (*toucher.reads, *toucher.writes)):
                    return region
        return None


def _blocks_of(regions: Sequence[Region]) -> int:
    """A bit per block; blocks of all spaces and lanes, and those far apart, share bits."""
    found = 0
    for region in regions:
        first = region.start >> BLOCK_BITS
        count = ((region.end - 1) >> BLOCK_BITS) - first + 1
        if count >= BLOCKS:
            return ALL_BLOCKS
        bits = ((1 << count) - 1) << first % BLOCKS
        found |= bits & ALL_BLOCKS | bits >> BLOCKS
    return found
