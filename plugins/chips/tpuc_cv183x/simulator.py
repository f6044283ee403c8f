"""Runs a `.cvimodel`: decodes the command bytes once, then executes them bit for bit for any number of inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from tpuc.api import (
    Command,
    CorruptFile,
    DecodedStreams,
    Engine,
    IllegalCommand,
    Region,
    StoredInput,
    UsageError,
    show_region,
    stored_inputs,
)

from tpuc_cv183x.container import (
    CpuRoutine,
    CviModel,
    Program,
    Routine,
    SectionKind,
    Tensor,
    TpuRoutine,
    read_arguments,
)
from tpuc_cv183x.container.model import Value
from tpuc_cv183x.cpu import run_function
from tpuc_cv183x.isa.geometry import FIRST_IO, GMEM_BITS, PRIVATE, SHARED, WEIGHTS, split_gmem
from tpuc_cv183x.isa.stream import Segment, decode_cmdbuf, decode_dmabuf
from tpuc_cv183x.isa.target import Target
from tpuc_cv183x.isa.types import Array
from tpuc_cv183x.machine import Machine

MEMORY_LIMIT_BYTES = 1 << 32
"""The GMEM window; a file that asks for more is damaged."""

Watcher = Callable[[int, Command], None]
"""Called after every executed command with the number of its segment."""


@dataclass(frozen=True)
class CpuStep:
    """A call of a built-in function."""

    function: str
    arguments: Mapping[str, Value]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


Step = DecodedStreams | CpuStep


class Simulator:
    """One program of a file with its memories. Decoding happens here, `run` may be called many times."""

    def __init__(self, model: CviModel, program: int = 0, source: str = "cvimodel") -> None:
        self.source = source
        self.model = model
        if not 0 <= program < len(model.programs):
            raise UsageError(f"{source}: no program {program}; the file has {len(model.programs)}")
        self.program = model.programs[program]
        self.steps: tuple[Step, ...] = tuple(
            step
            for number, routine in enumerate(self.program.routines)
            for step in _decode_routine(model, self.program, routine, f"{source}: routine {number}")
        )
        self.inputs = tuple(self.program.tensor(name) for name in self.program.inputs)
        self.outputs = tuple(self.program.tensor(name) for name in self.program.outputs)
        self._checked = False
        weights = model.section(SectionKind.WEIGHT)
        self._weights = np.frombuffer(weights.data if weights else b"", np.uint8)
        self._weights_touched = self._writes(WEIGHTS)
        self.machine = Machine(model.target)
        for base, size in enumerate(_memory_sizes(self.program, source)):
            self.machine.gmem[base] = np.zeros(size, np.uint8)
        self.machine.gmem[WEIGHTS] = self._weights.copy()

    @classmethod
    def from_bytes(cls, data: bytes, target: Target, program: int = 0, source: str = "cvimodel") -> Simulator:
        """Load a file; raises CorruptFile, IllegalCommand or Unsupported."""
        return cls(CviModel.from_bytes(data, target), program, source)

    @property
    def segments(self) -> tuple[DecodedStreams, ...]:
        """Everything that runs on the chip, in order."""
        return tuple(step for step in self.steps if isinstance(step, DecodedStreams))

    # -- checking ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Illegal commands (IllegalCommand) and unordered conflicts (HazardError), without running; done once."""
        if self._checked:
            return
        for index, segment in enumerate(self.segments):
            segment.check(self._where(index), _show_region)
        self._checked = True

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, inputs: Mapping[str, Array], *, check: bool = True, watch: Watcher | None = None) -> dict[str, Array]:
        """Execute with `inputs` by name, raw as stored; returns the outputs by name.

        Without `check` commands may be unordered, unaligned or hold unknown fields, as long as they can be executed.
        """
        if check:
            self.check()
        self._reset()
        self._put_inputs(inputs)
        index = 0
        for step in self.steps:
            if isinstance(step, CpuStep):
                self._run_cpu(step)
                continue
            step.run(self.machine, self._where(index), partial(watch, index) if watch is not None else None)
            index += 1
        return {tensor.name: self.tensor(tensor).copy() for tensor in self.outputs}

    def _run_cpu(self, step: CpuStep) -> None:
        results = run_function(
            step.function, [self.tensor(tensor) for tensor in step.inputs], step.arguments, step.outputs
        )
        if [result.size for result in results] != [math.prod(tensor.shape) for tensor in step.outputs]:
            raise CorruptFile(
                f"{self.source}: CPU function '{step.function}' does not give the shapes of its outputs; the file is "
                "damaged, copy it again"
            )
        for tensor, result in zip(step.outputs, results, strict=True):
            self.tensor(tensor)[...] = np.asarray(result).reshape(tensor.shape)

    def _reset(self) -> None:
        """Forget the last run, so that every run gives the same result."""
        self.machine.lmem.fill(0)
        for base, memory in enumerate(self.machine.gmem):
            if base != WEIGHTS:
                memory.fill(0)
        if self._weights_touched:
            self.machine.gmem[WEIGHTS][:] = self._weights

    def _put_inputs(self, inputs: Mapping[str, Array]) -> None:
        wanted = [
            StoredInput(tensor.name, tensor.shape, tensor.type.numpy, tensor.type.name.lower())
            for tensor in self.inputs
        ]
        arrays = stored_inputs(inputs, wanted, self.source)
        for tensor in self.inputs:
            self.tensor(tensor)[...] = arrays[tensor.name]

    def _where(self, index: int) -> str:
        return f"{self.source}: segment {index}"

    def tensor(self, tensor: Tensor) -> Array:
        """A tensor of the program where it lies, to read or to write."""
        return self._view(tensor.address, tensor.bytes).view(tensor.type.numpy).reshape(tensor.shape)

    def read(self, address: int, shape: Sequence[int], dtype: np.dtype[np.generic]) -> Array:
        """A dense tensor in GMEM as the last run left it."""
        return self._view(address, math.prod(shape) * dtype.itemsize).view(dtype).reshape(tuple(shape)).copy()

    def _view(self, address: int, size: int) -> Array:
        base, offset = split_gmem(address)
        if not 0 <= base < len(self.machine.gmem) or not 0 <= offset <= offset + size <= self.machine.gmem[base].size:
            raise UsageError(
                f"{self.source}: {size} bytes at g{base}+{offset:#x} are outside the memory of this program"
            )
        return self.machine.gmem[base][offset : offset + size]

    def _writes(self, base: int) -> bool:
        return any(
            region.space == "gmem" and region.start >> GMEM_BITS == base
            for segment in self.segments
            for command in segment.dma
            for region in command.instruction.writes()
        )


# -- loading -----------------------------------------------------------------------------------------------------------


def _decode_routine(model: CviModel, program: Program, routine: Routine, where: str) -> list[Step]:
    try:
        match routine.body:
            case CpuRoutine(function, arguments):
                inputs, outputs = (
                    tuple(program.tensor(name) for name in names) for names in (routine.inputs, routine.outputs)
                )
                return [CpuStep(function, read_arguments(arguments), inputs, outputs)]
            case TpuRoutine():
                segments = load_segments(model, routine.body)
    except (CorruptFile, IllegalCommand) as error:
        raise type(error)(f"{where}: {error}") from error
    return [_decode_segment(segment, f"{where}: segment {index}") for index, segment in enumerate(segments)]


def load_segments(model: CviModel, body: TpuRoutine) -> list[Segment]:
    """The commands of a TPU routine; a command buffer is preferred to a DMA buffer, as in the runtime."""
    cmdbuf = model.section(SectionKind.CMDBUF, body.cmdbuf) if body.cmdbuf else None
    if cmdbuf is not None:
        return decode_cmdbuf(cmdbuf.data, model.target)
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
    """Bytes behind each base register."""
    sizes = [0] * 8
    sizes[SHARED], sizes[PRIVATE] = program.shared_bytes, program.private_bytes
    for tensor in program.tensors:
        if tensor.tag == WEIGHTS:
            raise CorruptFile(f"{source}: tensor {tensor.name!r} lies in the weights; the file is damaged")
        if tensor.tag is not None and tensor.tag >= FIRST_IO:
            sizes[tensor.tag] = max(sizes[tensor.tag], tensor.offset + tensor.bytes)
    for name in (*program.inputs, *program.outputs):
        tensor = program.tensor(name)
        if tensor.tag is None or tensor.offset + tensor.bytes > sizes[tensor.tag]:
            raise CorruptFile(f"{source}: tensor {name!r} is outside the memory of its tag; the file is damaged")
    if max(sizes) > MEMORY_LIMIT_BYTES:
        raise CorruptFile(f"{source}: {max(sizes)} bytes of memory; GMEM has {MEMORY_LIMIT_BYTES}; the file is damaged")
    return sizes


# -- messages ----------------------------------------------------------------------------------------------------------


def _show_region(region: Region) -> str:
    if region.space == "lmem":
        return show_region(region)
    base, offset = split_gmem(region.start)
    return f"g{base}+{offset:#x}, {region.end - region.start} bytes"
