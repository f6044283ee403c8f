"""Records instructions in program order and derives the smallest wait ids that keep its meaning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tpuc.machine.instruction import Command, Instruction, Region


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


def _conflict(
    reads: Sequence[Region], writes: Sequence[Region], earlier: tuple[Sequence[Region], Sequence[Region]]
) -> bool:
    earlier_reads, earlier_writes = earlier
    return any(w.overlaps(r) for w in earlier_writes for r in (*reads, *writes)) or any(
        r.overlaps(w) for r in earlier_reads for w in writes
    )


def derive_waits(instructions: Iterable[Instruction]) -> list[Command]:
    """Number the instructions per engine and let each wait for the latest conflicting one of the other engine.

    A command waited for has everything before it done too (engines are in order), so the search for a conflict stops
    at the newest command that this engine already waited for.
    """
    touched: tuple[list[tuple[Sequence[Region], Sequence[Region]]], ...] = ([], [])
    known_done = [0, 0]
    commands: list[Command] = []
    for instruction in instructions:
        engine = instruction.engine
        other = engine.other
        reads, writes = instruction.reads(), instruction.writes()
        wait = 0
        others = touched[other]
        for number in range(len(others), known_done[engine], -1):
            if _conflict(reads, writes, others[number - 1]):
                wait = number
                break
        known_done[engine] = max(known_done[engine], wait)
        touched[engine].append((reads, writes))
        # A repeated wait costs nothing and keeps each command readable on its own.
        commands.append(Command(instruction, len(touched[engine]), known_done[engine]))
    return commands
