"""Programs with one wait less, and what becomes of their results in the two extreme orders that are then allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from tpuc.api import Command, DecodedStreams, Engine, TpucError, commands_done, find_hazards, serial_order

Array = np.ndarray[Any, Any]
Memories = Mapping[str, Array]


@dataclass(frozen=True)
class Mutant:
    """Both streams with the wait of `command` lowered to `wait`; `change` says how."""

    command: Command
    wait: int
    change: str
    compute: Sequence[Command]
    dma: Sequence[Command]

    @property
    def is_refused(self) -> bool:
        """Does the proof fail?"""
        return bool(find_hazards(self.compute, self.dma))

    def __str__(self) -> str:
        engine, number = self.command.engine.label, self.command.number
        return f"{engine} command {number} waits for {self.wait}, not {self.command.wait} ({self.change})"


def mutants_of(compute: Sequence[Command], dma: Sequence[Command]) -> Iterator[Mutant]:
    """Every wait removed, and every one that orders anything weakened.

    `removed`: the command waits for nothing. `weakened`: for one command less. Commands behind it that repeat the wait
    keep it in these, and lose it too in `removed with repeats` and `weakened with repeats`.
    """
    for stream in (compute, dma):
        before = [0, *commands_done(stream)]
        for at, command in enumerate(stream):
            if not command.wait:
                continue
            lowered = {"removed": (0, at + 1)}
            if command.wait > before[at]:
                repeats = at + 1
                while repeats < len(stream) and stream[repeats].wait <= command.wait:
                    repeats += 1
                lowered["weakened"] = (command.wait - 1, at + 1)
                lowered["removed with repeats"] = (before[at], repeats)
                lowered["weakened with repeats"] = (command.wait - 1, repeats)
            for change, (wait, end) in lowered.items():
                changed = [
                    replace(one, wait=min(one.wait, wait)) if at <= index < end else one
                    for index, one in enumerate(stream)
                ]
                streams = (changed, dma) if stream is compute else (compute, changed)
                yield Mutant(command, wait, change, *streams)


class Subject(Protocol):
    """A program that runs its parts in any order, from memories of random bytes wherever they may be undefined."""

    @property
    def parts(self) -> Sequence[DecodedStreams]:
        """The streams between full barriers."""
        ...

    def run(self, parts: Sequence[DecodedStreams], first: Engine) -> Memories:
        """All bytes of all memories afterwards, until the next run; those of `outputs` are the results. `first` runs
        ahead as far as it may.
        """
        ...


@dataclass
class Tally:
    """What mutants did. A mutant `shows` when one of the two orders leaves other bytes than the program itself."""

    waits: int = 0
    repeated: int = 0
    """Waits for what the engine waited for before."""
    removed: int = 0
    refused: int = 0
    shown: int = 0
    """Of the refused ones, those that change any byte of memory."""
    results: int = 0
    """And of these, those that change a result."""
    missed: int = 0
    """Mutants that pass the proof and change a byte: must be 0."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(one + two for one, two in zip(vars(self).values(), vars(other).values(), strict=True)))

    def __str__(self) -> str:
        return (
            f"{self.waits} waits ({self.repeated} repeat an earlier one), {self.removed} mutants: {self.refused} "
            f"refused, of which {self.shown} change memory and {self.results} results; {self.missed} missed"
        )


def led_by(first: Engine, part: DecodedStreams) -> DecodedStreams:
    """The streams in the order in which one engine is as fast as can be."""
    return DecodedStreams(part.compute, part.dma, serial_order(part.compute, part.dma, "mutant", first))


def try_mutants(subject: Subject, every: int = 1, missed: list[str] | None = None) -> Tally:
    """Run every (or each `every`-th) mutant in both extreme orders. The program itself must give the same in both."""
    tally = Tally()
    wanted = {name: memory.copy() for name, memory in subject.run(subject.parts, Engine.COMPUTE).items()}
    assert not _changes(subject, subject.parts, Engine.DMA, wanted), "the program itself has a hazard"
    for index, part in enumerate(subject.parts):
        tally += _waits(part.compute) + _waits(part.dma)
        assert not find_hazards(part.compute, part.dma)
        for number, mutant in enumerate(mutants_of(part.compute, part.dma)):
            if number % every:
                continue
            parts = [*subject.parts]
            parts[index] = DecodedStreams(mutant.compute, mutant.dma, ())
            changed = set[str]().union(*(_changes(subject, parts, first, wanted) for first in Engine))
            refused = mutant.is_refused
            tally += Tally(
                removed=1,
                refused=refused,
                shown=refused and bool(changed),
                results=refused and "outputs" in changed,
                missed=not refused and bool(changed),
            )
            if changed and not refused and missed is not None:
                missed.append(str(mutant))
    return tally


def _waits(stream: Sequence[Command]) -> Tally:
    before = [0, *commands_done(stream)]
    waits = [(command.wait, before[at]) for at, command in enumerate(stream) if command.wait]
    return Tally(waits=len(waits), repeated=sum(wait <= known for wait, known in waits))


def _changes(subject: Subject, parts: Sequence[DecodedStreams], first: Engine, wanted: Memories) -> set[str]:
    """The memories that differ."""
    try:
        found = subject.run(parts, first)
    except TpucError:  # data that are nobody's, such as an index outside its table
        return {"outputs"}
    return {name for name, memory in wanted.items() if not np.array_equal(memory, found[name])}


def random_inputs(tensors: Sequence[Any]) -> dict[str, Array]:
    """Values of the stored type that are neither all zero nor large enough to saturate what is computed from them."""
    rng = np.random.default_rng(5)
    scales = {one.name: 1 if one.type.numpy.kind == "f" else 32 for one in tensors}
    return {one.name: (rng.standard_normal(one.shape) * scales[one.name]).astype(one.type.numpy) for one in tensors}


def with_results(memories: Memories, outputs: Memories) -> Memories:
    """The memories, and all outputs one behind the other."""
    whole = np.concatenate([np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in outputs.values()])
    return {**memories, "outputs": whole}


class RandomBytes:
    """The same random bytes each time for the same memory."""

    def __init__(self) -> None:
        self._made: dict[str, Array] = {}

    def fill(self, name: str, memory: Array) -> None:
        """Overwrite a memory."""
        if name not in self._made:
            rng = np.random.default_rng([17, *name.encode()])
            self._made[name] = rng.integers(0, 256, memory.shape, np.uint8)
        memory[...] = self._made[name]
