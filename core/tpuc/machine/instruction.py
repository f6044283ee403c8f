"""Instructions of a two-engine machine and the memory regions that they access."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tpuc.machine.footprint import Piece, RegionTensor, pieces_of


class Engine(enum.IntEnum):
    """The two in-order engines of a chip; each counts its own commands from 1."""

    COMPUTE = 0
    DMA = 1

    @property
    def other(self) -> Engine:
        """The engine that a wait id of this one refers to."""
        return Engine(1 - self)

    @property
    def label(self) -> str:
        """Its name in messages."""
        return "compute" if self is Engine.COMPUTE else "DMA"


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes `[start, end)` of a memory `space`; in lane memories of lanes `[first_lane, end_lane)`.

    `start` and `end` are offsets within one lane for lane memories (`space == "lmem"`), addresses elsewhere. A region
    may cover more than is accessed (the span of a strided tensor), never less. `tensor` gives the accessed bytes;
    without it all bytes are accessed.
    """

    space: str
    start: int
    end: int
    first_lane: int = 0
    end_lane: int = 1
    tensor: RegionTensor | None = field(default=None, compare=False, repr=False)

    def overlaps(self, other: Region) -> bool:
        """True if the regions share a byte."""
        return (
            self.start < other.end
            and other.start < self.end
            and self.first_lane < other.end_lane
            and other.first_lane < self.end_lane
            and self.space == other.space
        )

    def pieces(self) -> Sequence[Piece]:
        """The accessed bytes, without gaps."""
        if self.tensor is None:
            return (Piece(self.first_lane, self.end_lane, self.start, self.end - self.start, ()),)
        return tuple(pieces_of(self.start, self.tensor))

    def meets(self, other: Region) -> bool:
        """True if both access a common byte. Unlike `overlaps`, this takes the gaps of strided tensors into account."""
        if not self.overlaps(other):
            return False
        if self.tensor is None and other.tensor is None:
            return True
        theirs = other.pieces()
        return any(mine.meets(piece) for mine in self.pieces() for piece in theirs)


class Instruction(ABC):
    """One machine instruction: its encoding, its memory accesses and its semantics.

    Subclasses are frozen dataclasses. `engine` is the engine that executes it.
    """

    engine: ClassVar[Engine]

    @abstractmethod
    def reads(self) -> Sequence[Region]:
        """Regions that it reads."""

    @abstractmethod
    def writes(self) -> Sequence[Region]:
        """Regions that it writes."""

    @abstractmethod
    def encode(self, number: int, wait: int) -> bytes:
        """Its bytes in the stream, with its own id and the id of the other engine's command that it waits for."""

    @abstractmethod
    def execute(self, machine: Any) -> None:
        """Execute it bit for bit on the chip's simulated memories."""

    @abstractmethod
    def describe(self) -> str:
        """One line for the disassembly, without ids."""

    def mnemonic(self) -> str:
        """Its name in messages and the disassembly. Default: the first word of `describe`."""
        return self.describe().split(maxsplit=1)[0]

    def check(self) -> None:  # noqa: B027  # optional: what there is to check is up to the machine
        """Raise IllegalCommand when the hardware would refuse it or behave differently. Default: everything is
        legal.
        """


@dataclass(frozen=True, slots=True)
class Command:
    """An instruction in its stream: `number` counts from 1 per engine; `wait` 0 means no wait."""

    instruction: Instruction
    number: int
    wait: int

    @property
    def engine(self) -> Engine:
        """The engine that executes it."""
        return self.instruction.engine
