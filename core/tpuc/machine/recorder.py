"""Records instructions in program order and derives the smallest wait ids that keep its meaning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tpuc.machine.instruction import Command, Instruction, Region

BLOCK_BITS, BLOCKS = 6, 512
"""Memory in blocks of 64 bytes, of which every 512th is the same bit."""
ALL_BLOCKS = (1 << BLOCKS) - 1


class Recorder:
    """Base of every chip's assembler: kernels append instructions, nobody writes a wait id."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []

    def record(self, instruction: Instruction) -> None:
        """Append one instruction; program order is the order of meaning."""
        self.instructions.append(instruction)

    def commands(self) -> list[Command]:
        """All instructions with ids and waits, in program order."""
        return derive_waits(self.instructions)


@dataclass(frozen=True, slots=True)
class _Touched:
    """What a command reads and writes, exactly and as sets of blocks of memory that say quickly what cannot overlap."""

    reads: Sequence[Region]
    writes: Sequence[Region]
    read_blocks: int
    written_blocks: int

    @classmethod
    def by(cls, instruction: Instruction) -> _Touched:
        reads, writes = instruction.reads(), instruction.writes()
        return cls(reads, writes, _blocks_of(reads), _blocks_of(writes))

    def conflicts(self, earlier: _Touched) -> bool:
        """Must this one wait for `earlier`?"""
        written = self.written_blocks
        if not (earlier.written_blocks & (self.read_blocks | written) or earlier.read_blocks & written):
            return False
        return any(w.overlaps(r) for w in earlier.writes for r in (*self.reads, *self.writes)) or any(
            r.overlaps(w) for r in earlier.reads for w in self.writes
        )


def _blocks_of(regions: Sequence[Region]) -> int:
    """A bit per block; blocks of all spaces and lanes, and those far apart, share bits."""
    found = 0
    for region in regions:
        first, count = region.start >> BLOCK_BITS, ((region.end - 1) >> BLOCK_BITS) - (region.start >> BLOCK_BITS) + 1
        if count >= BLOCKS:
            return ALL_BLOCKS
        bits = ((1 << count) - 1) << first % BLOCKS
        found |= bits & ALL_BLOCKS | bits >> BLOCKS
    return found


def derive_waits(instructions: Iterable[Instruction]) -> list[Command]:
    """Number the instructions per engine and let each wait for the latest conflicting one of the other engine.

    A command waited for has everything before it done too (engines are in order), so the search for a conflict stops
    at the newest command that this engine already waited for.
    """
    touched: tuple[list[_Touched], ...] = ([], [])
    known_done = [0, 0]
    commands: list[Command] = []
    for instruction in instructions:
        engine = instruction.engine
        mine = _Touched.by(instruction)
        others = touched[engine.other]
        for number in range(len(others), known_done[engine], -1):
            if mine.conflicts(others[number - 1]):
                known_done[engine] = number
                break
        touched[engine].append(mine)
        # A repeated wait costs nothing and keeps each command readable on its own.
        commands.append(Command(instruction, len(touched[engine]), known_done[engine]))
    return commands
