"""Simulation of two-engine machines: execution order, checks, and error positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpuc.errors import HazardError, IllegalCommand, UsageError
from tpuc.machine.hazards import Hazard, iterate_hazards
from tpuc.machine.instruction import Command, Engine, Instruction, Region
from tpuc.machine.timeline import Timeline, TimelineEntry, make_timeline

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def show_region(region: Region) -> str:
    """A region as text for messages."""
    lanes = f", lanes {region.first_lane}..{region.end_lane - 1}" if region.space == "lmem" else ""
    return f"{region.space} {region.start:#x}..{region.end:#x}{lanes}"


@dataclass(frozen=True)
class DecodedStreams:
    """Both streams of a core between two full barriers, and one legal order of execution."""

    compute: Sequence[Command]
    dma: Sequence[Command]
    order: Sequence[Command]
    core: int = 0

    @classmethod
    def of(cls, compute: Sequence[Command], dma: Sequence[Command], where: str, core: int = 0) -> DecodedStreams:
        """Streams in an order that respects all waits; raises HazardError when there is none."""
        return cls(compute, dma, serial_order(compute, dma, where), core)

    def check(self, where: str, show: Callable[[Region], str] = show_region) -> None:
        """Raise IllegalCommand for an illegal command, HazardError for unordered conflicts.

        Streams that pass give the same bits in every order that the waits allow.
        """
        for command in (*self.compute, *self.dma):
            try:
                command.instruction.check()
            except IllegalCommand as error:
                raise _named(error, where, command) from error
        for hazard in iterate_hazards(self.compute, self.dma):
            raise HazardError(f"{where}: {_sentence(hazard, show)}")

    def run(self, machine: Any, where: str, watch: Callable[[Command], None] | None = None) -> None:
        """Execute all commands; `watch` is called after each."""
        for command in self.order:
            try:
                command.instruction.execute(machine)
            except IllegalCommand as error:
                raise _named(error, where, command) from error
            if watch is not None:
                watch(command)


def serial_order(
    compute: Sequence[Command], dma: Sequence[Command], where: str = "program", first: Engine = Engine.COMPUTE
) -> tuple[Command, ...]:
    """One order that respects all waits: commands of the engine `first` run as early as possible.

    Results that depend on `first` show a missing wait; equal results prove nothing.
    """
    queues: dict[Engine, Sequence[Command]] = {Engine.COMPUTE: compute, Engine.DMA: dma}
    done = dict.fromkeys(Engine, 0)
    order: list[Command] = []
    total = len(compute) + len(dma)
    while len(order) < total:
        for engine in (first, first.other):
            if done[engine] < len(queues[engine]) and queues[engine][done[engine]].wait <= done[engine.other]:
                order.append(queues[engine][done[engine]])
                done[engine] += 1
                break
        else:
            raise HazardError(
                f"{where}: compute command {done[Engine.COMPUTE] + 1} and DMA command {done[Engine.DMA] + 1} wait for "
                "ids that are never reached; lower one of the waits"
            )
    return tuple(order)


def stretches(parts: Iterable[DecodedStreams]) -> Iterator[list[DecodedStreams]]:
    """The parts that run beside each other; a part of core 0 begins a stretch, after a full barrier."""
    stretch: list[DecodedStreams] = []
    for part in parts:
        if part.core == 0 and stretch:
            yield stretch
            stretch = []
        stretch.append(part)
    if stretch:
        yield stretch


def make_timelines(
    parts: Iterable[DecodedStreams],
    cycles_of: Callable[[Instruction], int],
    beside: Callable[[Instruction], int] | None = None,
) -> Timeline:
    """Stretches run one after another, the parts of each beside each other; `beside`: cycles if there are several."""
    entries: list[TimelineEntry] = []
    busy = dict.fromkeys(Engine, 0)
    end = 0
    for stretch in stretches(parts):
        start, busy_cores = end, sum(bool(streams.order) for streams in stretch)
        cycles = cycles_of if beside is None or busy_cores < 2 else beside
        for streams in stretch:
            both = {Engine.COMPUTE: streams.compute, Engine.DMA: streams.dma}
            part = make_timeline(both, cycles, start, streams.core)
            entries += part.entries
            for engine in Engine:
                busy[engine] += part.busy[engine]
            end = max(end, part.cycles)
    return Timeline(tuple(entries), busy)


@dataclass(frozen=True)
class StoredInput:
    """The stored form of an input: extents, array type, and the type's name in messages."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    label: str


def stored_inputs(
    given: Mapping[str, npt.NDArray[Any]], wanted: Sequence[StoredInput], source: str
) -> dict[str, npt.NDArray[Any]]:
    """Arrays in their stored form; raises UsageError unless all inputs are present and their numbers can be stored.

    Types that numpy lacks may be passed as unsigned integers with the same bits.
    """
    import numpy as np

    names = [one.name for one in wanted]
    if unknown := sorted(set(given) - set(names)):
        raise UsageError(f"{source}: no input {unknown[0]!r}; the file has {', '.join(names)}")
    arrays: dict[str, npt.NDArray[Any]] = {}
    for one in wanted:
        if one.name not in given:
            raise UsageError(f"{source}: input {one.name!r} is missing; give all of {', '.join(names)}")
        values = np.asarray(given[one.name])
        stored = _stored(values, one.dtype)
        if stored is None or values.size != math.prod(one.shape):
            raise UsageError(
                f"{source}: input {one.name!r} is {one.label} of shape {one.shape}, got {values.dtype} of shape "
                f"{values.shape}; convert it"
            )
        arrays[one.name] = np.asarray(stored, order="C").reshape(one.shape)
    return arrays


def _stored(values: npt.NDArray[Any], wanted: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """The same numbers in another type, None where it cannot hold them. Floats are accepted for integers with a
    scale.
    """
    import numpy as np

    if values.dtype == wanted:
        return values
    if wanted.kind == "V" and values.dtype == np.dtype(f"u{wanted.itemsize}"):
        return values.view(wanted)
    if values.dtype.kind not in "biuf" or (values.dtype.kind == "f" and wanted.kind in "iu"):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        typed = values.astype(wanted)
    return typed if np.array_equal(typed.astype(values.dtype), values, equal_nan=values.dtype.kind == "f") else None


def _sentence(hazard: Hazard, show: Callable[[Region], str]) -> str:
    sides = ((hazard.dma_done, Engine.DMA), (hazard.compute_done, Engine.COMPUTE))
    first, second = (
        f"starts when {engine.label} command {done} is done" if done else f"waits for no {engine.label} command"
        for done, engine in sides
    )
    return (
        f"{label_of(hazard.compute)} and {label_of(hazard.dma)} may run at the same time and both use "
        f"{show(hazard.region)}: the first {first}, the second {second}; let the later one wait for the earlier one"
    )


def label_of(command: Command) -> str:
    """A command as text."""
    return f"{command.engine.label} command {command.number} ({command.instruction.mnemonic()})"


def _named(error: IllegalCommand, where: str, command: Command) -> IllegalCommand:
    return IllegalCommand(f"{where}: {command.engine.label} command {command.number}: {error}")
