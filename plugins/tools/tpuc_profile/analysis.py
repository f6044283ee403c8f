"""Trace the data of a timed program: which op wrote which bytes of local memory and DDR, when, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tpuc.api import Engine, LayerCommands, LoadedModel, Region, TensorInfo, Timeline, TimelineEntry

LMEM = "lmem"


@dataclass
class Block:
    """Bytes of a core's local memory from their write to their last read. Offsets are within a lane."""

    start: int
    end: int
    first_lane: int
    end_lane: int
    writer: int
    born: int
    read: int
    core: int = 0


@dataclass
class Tensor:
    """A contiguous range of DDR; `stores` are the commands that wrote it. Units: cycles, and addresses in bytes."""

    kind: str
    start: int
    end: int
    born: int
    read: int
    name: str = ""
    stores: list[int] = field(default_factory=list[int])
    is_open: bool = True

    @property
    def size_bytes(self) -> int:
        """Size in bytes."""
        return self.end - self.start


@dataclass
class Step:
    """The commands of a layer; if its name is unknown, those that serve one stored tensor, which may be a group of
    layers that stay in local memory. `lmem_bytes`: bytes per lane that they read or write. `op`: the kind of a known
    layer.
    """

    tensor: int
    start: int
    end: int
    name: str = ""
    op: str = ""
    compute_cycles: int = 0
    dma_cycles: int = 0
    commands: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    lmem_bytes: int = 0

    @property
    def busy_cycles(self) -> int:
        """Busy cycles of both engines."""
        return self.compute_cycles + self.dma_cycles

    @property
    def bound(self) -> str:
        """The engine that limits it, or nothing if it has no commands."""
        if not self.busy_cycles:
            return ""
        return "compute" if self.compute_cycles >= self.dma_cycles else "DDR"

    def add(self, entry: TimelineEntry, moved: tuple[int, int]) -> None:
        """Add a command."""
        self.start = min(self.start, entry.start) if self.commands else entry.start
        self.end = max(self.end, entry.end)
        self.commands += 1
        if entry.command.engine is Engine.COMPUTE:
            self.compute_cycles += entry.end - entry.start
        else:
            self.dma_cycles += entry.end - entry.start
        self.read_bytes += moved[0]
        self.written_bytes += moved[1]


@dataclass(frozen=True)
class Analysis:
    """A timed program with its data traced. `steps_of`: the step of each timeline entry."""

    timeline: Timeline
    tensors: Sequence[Tensor]
    blocks: Sequence[Block]
    steps: Sequence[Step]
    steps_of: Sequence[int]
    moved: Sequence[tuple[int, int]]
    weight_bytes: int

    @property
    def read_bytes(self) -> int:
        """Bytes read from DDR by all commands."""
        return sum(read for read, _ in self.moved)

    @property
    def written_bytes(self) -> int:
        """Bytes written to DDR."""
        return sum(written for _, written in self.moved)

    @property
    def overlap_cycles(self) -> int:
        """Cycles in which both engines of a core work, summed over the cores."""
        return sum(map(self._overlap_of, range(self.cores)))

    def _overlap_of(self, core: int) -> int:
        own = [entry for entry in self.timeline.entries if entry.core == core]
        spans = {engine: [(e.start, e.end) for e in own if e.command.engine is engine] for engine in Engine}
        total = at = 0
        others = spans[Engine.DMA]
        for start, end in spans[Engine.COMPUTE]:
            while at < len(others) and others[at][1] <= start:
                at += 1
            for other_start, other_end in others[at:]:
                if other_start >= end:
                    break
                total += min(end, other_end) - max(start, other_start)
        return total

    @property
    def lmem_peak_bytes(self) -> int:
        """End of the used bytes per lane."""
        return max(map(self.lmem_peak_of, range(self.cores)))

    def lmem_peak_of(self, core: int) -> int:
        """End of the used bytes per lane of a core."""
        return max((block.end for block in self.blocks if block.core == core), default=0)

    @cached_property
    def cores(self) -> int:
        """Number of cores that execute commands."""
        return 1 + max((entry.core for entry in self.timeline.entries), default=0)

    @property
    def lanes(self) -> Sequence[tuple[int, Engine, str]]:
        """Each core, each of its engines, and the name of both."""
        pairs = [(core, engine, engine.name.lower()) for core in range(self.cores) for engine in sorted(Engine)]
        return pairs if self.cores == 1 else [(core, engine, f"{name} {core}") for core, engine, name in pairs]

    def busy(self, core: int, engine: Engine) -> Sequence[int]:
        """Cycles of each command of an engine."""
        own = (entry for entry in self.timeline.entries if (entry.core, entry.command.engine) == (core, engine))
        return [entry.end - entry.start for entry in own]


def analyze(loaded: LoadedModel, timeline: Timeline, weights: tuple[int, int]) -> Analysis:
    """Trace the data of a timed program. `weights`: first address of the constants, and their bytes."""
    follower = _Follower(loaded, timeline, weights)
    for index, entry in enumerate(timeline.entries):
        follower.follow(index, entry)
    return follower.finish()


class _Follower:
    def __init__(self, loaded: LoadedModel, timeline: Timeline, weights: tuple[int, int]) -> None:
        self._loaded = loaded
        self._timeline = timeline
        self._weights = (weights[0], weights[0] + weights[1])
        self._live: defaultdict[int, list[Block]] = defaultdict(list)
        self._blocks: list[Block] = []
        self._parents: list[list[int]] = []
        self._moved: list[tuple[int, int]] = []
        self._constants: dict[tuple[int, int], int] = {}
        self._tensors: list[Tensor] = []
        self._current: list[int] = []
        for info in loaded.inputs:
            end = info.address + info.size_bytes
            self._tensors.append(Tensor("input", info.address, end, 0, 0, info.name, is_open=False))
            self._current.append(len(self._tensors) - 1)

    def follow(self, index: int, entry: TimelineEntry) -> None:
        """Trace one command: find the producers of what it reads, and record what it writes."""
        instruction = entry.command.instruction
        parents: dict[int, None] = {}
        for region in instruction.reads():
            if region.space == LMEM:
                for block in self._live[entry.core]:
                    if _touches(block, region):
                        block.read = max(block.read, entry.end)
                        parents[block.writer] = None
            elif region.space in self._loaded.ddr_spaces:
                self._read(region, entry)
        self._parents.append(list(parents))
        for region in instruction.writes():
            if region.space == LMEM:
                self._replace(region, index, entry)
            elif region.space in self._loaded.ddr_spaces:
                self._write(region, index, entry)
        self._moved.append(self._loaded.ddr_bytes(instruction))

    def _replace(self, region: Region, index: int, entry: TimelineEntry) -> None:
        kept: list[Block] = []
        for block in self._live[entry.core]:
            covers = region.first_lane <= block.first_lane and block.end_lane <= region.end_lane
            if not _touches(block, region) or not covers:
                kept.append(block)
                continue
            # What sticks out on either side goes on living; a step that writes its own block again just continues it.
            if block.start < region.start:
                kept.append(self._cut(block, block.start, region.start))
            if block.end > region.end:
                kept.append(self._cut(block, region.end, block.end))
        new = Block(
            region.start, region.end, region.first_lane, region.end_lane, index, entry.start, entry.end, entry.core
        )
        kept.append(new)
        self._blocks.append(new)
        self._live[entry.core] = kept

    def _cut(self, block: Block, start: int, end: int) -> Block:
        part = Block(start, end, block.first_lane, block.end_lane, block.writer, block.born, block.read, block.core)
        self._blocks.append(part)
        return part

    def _read(self, region: Region, entry: TimelineEntry) -> None:
        if self._weights[0] <= region.start < self._weights[1]:
            self._constants[region.start, region.end] = self._loaded.ddr_bytes(entry.command.instruction)[0]
            return
        found = False
        for number in self._current:
            tensor = self._tensors[number]
            if tensor.start < region.end and region.start < tensor.end:
                tensor.is_open = False
                tensor.read = max(tensor.read, entry.end)
                found = True
        if not found:  # something that the host put there
            self._tensors.append(Tensor("host", region.start, region.end, 0, entry.end, is_open=False))
            self._current.append(len(self._tensors) - 1)

    def _write(self, region: Region, index: int, entry: TimelineEntry) -> None:
        for number in self._current:
            tensor = self._tensors[number]
            if tensor.is_open and region.start <= tensor.end and tensor.start <= region.end:
                tensor.start, tensor.end = min(tensor.start, region.start), max(tensor.end, region.end)
                tensor.read = max(tensor.read, entry.end)
                tensor.stores.append(index)
                return
        self._current = [
            number
            for number in self._current
            if not (region.start <= self._tensors[number].start and self._tensors[number].end <= region.end)
        ]
        self._tensors.append(Tensor("inner", region.start, region.end, entry.start, entry.end, stores=[index]))
        self._current.append(len(self._tensors) - 1)

    def finish(self) -> Analysis:
        """Name the outputs, and assign every command to the first store that it serves."""
        for info in self._loaded.outputs:
            for number in reversed(self._current):
                tensor = self._tensors[number]
                if tensor.start <= info.address < tensor.end and tensor.kind == "inner":
                    tensor.kind, tensor.name, tensor.read = "output", info.name, self._timeline.cycles
                    break
        owners = [-1] * len(self._timeline.entries)
        for number, tensor in enumerate(self._tensors):
            for index in tensor.stores:
                owners[index] = number
        for index in range(len(owners) - 1, -1, -1):
            for parent in self._parents[index]:
                if owners[index] >= 0 and not self._is_store(parent):
                    owners[parent] = owners[index]
        steps, steps_of = self._steps(owners)
        return Analysis(self._timeline, self._tensors, self._blocks, steps, steps_of, self._moved, self._weight_bytes())

    def _weight_bytes(self) -> int:
        """Count the distinct bytes of constants that are read; parts may overlap and leave gaps."""
        return min(_union(sorted(self._constants)), sum(self._constants.values()))

    def _is_store(self, index: int) -> bool:
        return self._moved[index][1] > 0

    def _steps(self, owners: Sequence[int]) -> tuple[list[Step], list[int]]:
        numbers: dict[int, int] = {}
        steps: list[Step] = []
        steps_of: list[int] = []
        for index, entry in enumerate(self._timeline.entries):
            owner = owners[index]
            if owner not in numbers:
                numbers[owner] = len(steps)
                steps.append(Step(owner, entry.start, entry.end))
            steps[numbers[owner]].add(entry, self._moved[index])
            steps_of.append(numbers[owner])
        _measure_lmem(self._timeline, steps, steps_of)
        return steps, steps_of


def by_layer(analysis: Analysis, layers: Sequence[LayerCommands]) -> Analysis:
    """Return the analysis with one step per layer, in order; raises ValueError if the commands differ."""
    numbers: dict[tuple[Engine, int], int] = {}
    for index, layer in enumerate(layers):
        for name, ranges in layer.commands.items():
            if name.upper() not in Engine.__members__:
                raise ValueError(f"it names an engine '{name}', which no chip has")
            numbers |= {(Engine[name.upper()], n): index for first, last in ranges for n in range(first, last + 1)}
    if len(numbers) != len(analysis.timeline.entries):
        raise ValueError(f"its layers have {len(numbers)} commands, the file has {len(analysis.timeline.entries)}")
    steps = [Step(-1, 0, 0, layer.name, layer.op) for layer in layers]
    counts = dict.fromkeys(Engine, 0)
    steps_of: list[int] = []
    for entry, moved in zip(analysis.timeline.entries, analysis.moved, strict=True):
        counts[entry.command.engine] += 1
        key = (entry.command.engine, counts[entry.command.engine])
        if key not in numbers:
            raise ValueError(f"none of its layers has {key[0].name.lower()} command {key[1]}")
        steps_of.append(numbers[key])
        steps[numbers[key]].add(entry, moved)
    _measure_lmem(analysis.timeline, steps, steps_of)
    return replace(analysis, steps=steps, steps_of=steps_of)


def _measure_lmem(timeline: Timeline, steps: Sequence[Step], steps_of: Sequence[int]) -> None:
    touched: list[dict[tuple[int, int], None]] = [{} for _ in steps]
    for entry, number in zip(timeline.entries, steps_of, strict=True):
        instruction = entry.command.instruction
        for region in (*instruction.reads(), *instruction.writes()):
            if region.space == LMEM:
                touched[number][region.start, region.end] = None
    for step, intervals in zip(steps, touched, strict=True):
        step.lmem_bytes = _union([*intervals])


@dataclass(frozen=True, order=True)
class PlannedPlace:
    """A buffer of the compiler's memory plan."""

    address: int
    first: int
    size_bytes: int
    name: str
    reason: str


def name_tensors(
    analysis: Analysis, plan: Sequence[PlannedPlace] | None, inner: Sequence[TensorInfo] = ()
) -> list[str]:
    """Name each tensor of DDR; return the reasons for their places. With a memory plan both come from it, otherwise the
    names are those of the file's `inner` tensors.
    """
    if plan is None:
        _name_inner(analysis.tensors, inner)
    reasons = [_own_reason(analysis.tensors, number) for number in range(len(analysis.tensors))]
    for number, tensor in enumerate(analysis.tensors):
        tensor.name = tensor.name or f"{tensor.kind} {number}"
    # Buffers at the same address follow each other in the order of the program.
    places = [place for place in sorted(plan or ()) if place.first >= 0]
    for number, tensor in enumerate(analysis.tensors):
        for place in places:
            if place.address <= tensor.start and tensor.end <= place.address + place.size_bytes:
                tensor.name, reasons[number] = place.name, place.reason
                places.remove(place)
                break
    return reasons


def _name_inner(tensors: Sequence[Tensor], inner: Sequence[TensorInfo]) -> None:
    """Match tensors at the same address in program order to the file's names, which are in the same order."""
    names = [*inner]
    for tensor in tensors:
        for info in names:
            if not tensor.name and (info.address, info.size_bytes) == (tensor.start, tensor.size_bytes):
                tensor.name = info.name
                names.remove(info)
                break


def _own_reason(tensors: Sequence[Tensor], number: int) -> str:
    """Return the reason for a place as far as the file itself shows it."""
    tensor = tensors[number]
    before = [
        other
        for other in tensors[:number]
        if other.start < tensor.end and tensor.start < other.end and other is not tensor
    ]
    if tensor.kind == "input":
        return "the file fixes the addresses of inputs"
    if tensor.kind == "host":
        return "the host writes it there"
    if not before:
        return "unused until then"
    last = max(before, key=lambda other: other.read)
    return f"reuses bytes of '{last.name or f'{last.kind} {tensors.index(last)}'}', last used in cycle {last.read:,}"


def _touches(block: Block, region: Region) -> bool:
    return (
        block.start < region.end
        and region.start < block.end
        and block.first_lane < region.end_lane
        and region.first_lane < block.end_lane
    )


def _union(intervals: Sequence[tuple[int, int]]) -> int:
    total = reach = 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reach))
        reach = max(reach, end)
    return total
