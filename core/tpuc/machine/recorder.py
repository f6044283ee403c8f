"""Record instructions in program order, and derive the minimal wait ids."""

from __future__ import annotations

from collections.abc import Iterable

from tpuc.machine.instruction import Command, Engine, Instruction
from tpuc.machine.simulation import DecodedStreams
from tpuc.machine.touched import Touched


class Recorder:
    """Base of every chip's assembler: kernels append instructions and never write wait ids."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.starts: list[tuple[int, int]] = []

    def begin(self, core: int) -> None:
        """Let a core execute what follows: core 0 after a full barrier, the others beside the part before."""
        self.starts.append((len(self.instructions), core))

    def record(self, instruction: Instruction) -> None:
        """Append one instruction; program order defines the semantics."""
        self.instructions.append(instruction)

    def commands(self) -> list[Command]:
        """All instructions with ids and waits, in program order."""
        return derive_waits(self.instructions)

    def parts(self) -> list[DecodedStreams]:
        """The program in the parts that `begin` made, with ids and waits."""
        starts = [place for place, _ in self.starts[1:]]
        parts: list[DecodedStreams] = []
        for (start, core), end in zip(self.starts or [(0, 0)], [*starts, len(self.instructions)], strict=True):
            commands = derive_waits(self.instructions[start:end])
            compute, dma = ([one for one in commands if one.engine is engine] for engine in Engine)
            parts.append(DecodedStreams(compute, dma, commands, core))
        return parts


def derive_waits(instructions: Iterable[Instruction]) -> list[Command]:
    """Number the instructions per engine; each waits for the latest conflicting one of the other engine.

    Engines are in order, so a command waited for implies all before it. The search for a conflict stops at the newest
    command that this engine already waited for.
    """
    touched: tuple[list[Touched], ...] = ([], [])
    known_done = [0, 0]
    commands: list[Command] = []
    for instruction in instructions:
        engine = instruction.engine
        mine = Touched.by(instruction)
        others = touched[engine.other]
        for number in range(len(others), known_done[engine], -1):
            if mine.conflict(others[number - 1]) is not None:
                known_done[engine] = number
                break
        touched[engine].append(mine)
        # A repeated wait costs nothing and keeps each command readable on its own.
        commands.append(Command(instruction, len(touched[engine]), known_done[engine]))
    return commands
