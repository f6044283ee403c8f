"""Simulate a `.cvimodel`: decode its commands once and execute them bit-exactly for any number of inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from tpuc.api import (
    CorruptFile,
    DecodedStreams,
    Engine,
    IllegalCommand,
    Instruction,
    Region,
    Unsupported,
    UsageError,
    show_region,
)
from tpuc_chip_parts.simulator import FileSimulator, HostStep, Step

from tpuc_cv18.container import (
    CpuRoutine,
    CviModel,
    Program,
    Routine,
    SectionKind,
    Tensor,
    TpuRoutine,
    read_arguments,
)
from tpuc_cv18.cpu import run_function
from tpuc_cv18.isa.geometry import FIRST_IO, GMEM_BITS, MEMORY_LIMIT_BYTES, PRIVATE, SHARED, WEIGHTS, split_gmem
from tpuc_cv18.isa.stream import Segment, decode_cmdbuf, decode_dmabuf
from tpuc_cv18.isa.target import Target
from tpuc_cv18.isa.types import Array
from tpuc_cv18.machine import Machine


class Simulator(FileSimulator):
    """One program of a file with its memories. The constructor decodes; `run` may be called any number of times."""

    part_name = "segment"
    machine: Machine
    memory_sizes: tuple[int, ...]
    """Bytes that the program needs behind each base register; allocated by the first run."""

    def __init__(
        self,
        model: CviModel,
        program: int = 0,
        source: str = "cvimodel",
        written: Sequence[Instruction] | None = None,
    ) -> None:
        super().__init__(source, Machine(model.target))
        self.model = model
        if not 0 <= program < len(model.programs):
            raise UsageError(f"{source}: no program {program}; the file has {len(model.programs)}")
        self.program = model.programs[program]
        known = None if written is None else iter(written)
        self.steps = tuple(
            step
            for number, routine in enumerate(self.program.routines)
            for step in _decode_routine(model, self.program, routine, f"{source}: routine {number}", known)
        )
        weights = model.section(SectionKind.WEIGHT)
        self._weights = np.frombuffer(weights.data if weights else b"", np.uint8)
        self._weights_touched = self._writes(WEIGHTS)
        self.memory_sizes = tuple(_memory_sizes(self.program, source))
        self.machine.gmem[WEIGHTS] = self._weights.copy()

    @classmethod
    def from_bytes(cls, data: bytes, target: Target, program: int = 0, source: str = "cvimodel") -> Simulator:
        """Load a file; raises CorruptFile, IllegalCommand or Unsupported."""
        return cls(CviModel.from_bytes(data, target), program, source)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(self.program.tensor(name) for name in self.program.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(self.program.tensor(name) for name in self.program.outputs)

    def show(self, region: Region) -> str:
        if region.space == "lmem":
            return show_region(region)
        base, offset = split_gmem(region.start)
        return f"g{base}+{offset:#x}, {region.end - region.start} bytes"

    def _computed(self, step: HostStep, inputs: Sequence[Array]) -> Sequence[Array]:
        return run_function(step.function, inputs, step.arguments, step.outputs)

    def _reset(self) -> None:
        """Clear the memories. The first run allocates them, so that a file which states too much memory can still be
        inspected.
        """
        self.machine.lmem.fill(0)
        for base, size in enumerate(self.memory_sizes):
            if base == WEIGHTS:
                continue
            if self.machine.gmem[base].size == size:
                self.machine.gmem[base].fill(0)
            else:
                self.machine.gmem[base] = self._zeros(size)

    def _zeros(self, size: int) -> Array:
        try:
            return np.zeros(size, np.uint8)
        except MemoryError as error:
            raise Unsupported(
                f"{self.source}: the program states {size:,} bytes of one memory, more than this machine has left; "
                "compile the network for smaller inputs, or check the file"
            ) from error

    def forget(self) -> None:
        if self._weights_touched:
            self.machine.gmem[WEIGHTS][:] = self._weights

    def _memory(self, address: int, size: int) -> Array:
        base, offset = split_gmem(address)
        if not 0 <= base < len(self.machine.gmem) or not 0 <= offset <= offset + size <= self.machine.gmem[base].size:
            raise UsageError(
                f"{self.source}: {size} bytes at g{base}+{offset:#x} are outside the memory of this program"
            )
        return self.machine.gmem[base][offset : offset + size]

    def _writes(self, base: int) -> bool:
        return any(region.space == "gmem" and region.start >> GMEM_BITS == base for region in self._written())


# -- loading -----------------------------------------------------------------------------------------------------------


def _decode_routine(
    model: CviModel, program: Program, routine: Routine, where: str, known: Iterator[Instruction] | None
) -> list[Step]:
    try:
        match routine.body:
            case CpuRoutine(function, arguments):
                inputs, outputs = (
                    tuple(_tensor(model, program, name) for name in names)
                    for names in (routine.inputs, routine.outputs)
                )
                return [HostStep(function, read_arguments(arguments), inputs, outputs)]
            case TpuRoutine():
                segments = load_segments(model, routine.body, known)
    except (CorruptFile, IllegalCommand) as error:
        raise type(error)(f"{where}: {error}") from error
    return [_decode_segment(segment, f"{where}: segment {index}") for index, segment in enumerate(segments)]


def _tensor(model: CviModel, program: Program, name: str) -> Tensor:
    """The tensor or weight that a CPU function reads or writes."""
    weight = next((weight for weight in model.weights if weight.name == name), None)
    if weight is None:
        return program.tensor(name)
    return Tensor(name, weight.type, weight.shape, WEIGHTS, weight.offset)


def load_segments(model: CviModel, body: TpuRoutine, known: Iterator[Instruction] | None = None) -> list[Segment]:
    """Decode the commands of a TPU routine. Like the runtime, prefer a command buffer to a DMA buffer.

    `known` yields the instructions of command buffers where they are known.
    """
    cmdbuf = model.section(SectionKind.CMDBUF, body.cmdbuf) if body.cmdbuf else None
    if cmdbuf is not None:
        return decode_cmdbuf(cmdbuf.data, model.target, known)
    dmabuf = model.section(SectionKind.DMABUF, body.dmabuf) if body.dmabuf else None
    if dmabuf is not None:
        return decode_dmabuf(dmabuf.data, model.target)
    name = body.cmdbuf or body.dmabuf
    raise CorruptFile(f"no section {name!r} with commands; the file is damaged")


def _decode_segment(segment: Segment, where: str) -> DecodedStreams:
    streams = {engine: segment.stream(engine) for engine in Engine}
    for engine, stream in streams.items():
        for index, command in enumerate(stream):
            if command.number != index + 1:
                raise CorruptFile(
                    f"{where}: {engine.label} command {index + 1} is numbered {command.number}; the file is damaged"
                )
    compute, dma = streams[Engine.COMPUTE], streams[Engine.DMA]
    return DecodedStreams.of(compute, dma, where)


def _memory_sizes(program: Program, source: str) -> list[int]:
    """Bytes behind each base register; raises CorruptFile for tensors outside the program's memory."""
    sizes = [0] * 8
    sizes[SHARED], sizes[PRIVATE] = program.shared_bytes, program.private_bytes
    for tensor in program.tensors:
        if tensor.tag == WEIGHTS:
            raise CorruptFile(f"{source}: tensor {tensor.name!r} is among the weights; the file is damaged")
        if tensor.tag is not None and tensor.tag >= FIRST_IO:
            sizes[tensor.tag] = max(sizes[tensor.tag], tensor.offset + tensor.bytes)
    for name in (*program.inputs, *program.outputs):
        tensor = program.tensor(name)
        if tensor.tag is None or tensor.offset + tensor.bytes > sizes[tensor.tag]:
            raise CorruptFile(f"{source}: tensor {name!r} is outside the memory of its tag; the file is damaged")
    if max(sizes) > MEMORY_LIMIT_BYTES:
        raise CorruptFile(
            f"{source}: needs {max(sizes)} contiguous bytes of memory, more than the chip's window of "
            f"{MEMORY_LIMIT_BYTES}; the file is damaged or for another chip"
        )
    return sizes
