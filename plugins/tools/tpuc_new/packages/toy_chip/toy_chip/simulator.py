"""Runs a compiled file: decodes its bytes and executes them, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from tpuc.api import (
    Command,
    CorruptFile,
    Engine,
    HazardError,
    IllegalCommand,
    LoadedModel,
    ScalarType,
    TensorInfo,
    TensorType,
    Timeline,
    UsageError,
    find_hazards,
    make_timeline,
)

from toy_chip.container import ToyFile
from toy_chip.isa import decode
from toy_chip.machine import Array, Machine
from toy_chip.operands import DDR_BASE, DType, Four, Strided
from toy_chip.timing import cycles


class ToyModel(LoadedModel):
    """A file in the simulator."""

    def __init__(self, content: ToyFile, source: str, size_bytes: int) -> None:
        self.inputs = content.inputs
        self.outputs = content.outputs
        self._content = content
        self._source = source
        self._size_bytes = size_bytes
        self._streams: dict[Engine, Sequence[Command]] = {
            Engine.COMPUTE: decode(content.compute),
            Engine.DMA: decode(content.dma),
        }
        self._machine = Machine()
        for engine, commands in self._streams.items():
            for position, command in enumerate(commands, 1):
                if command.number != position or command.engine is not engine:
                    raise CorruptFile(
                        f"{source}: command {position} of the {engine.name} stream is out of place; compile it again"
                    )

    @cached_property
    def _timeline(self) -> Timeline:
        try:
            return make_timeline(self._streams, cycles)
        except ValueError as error:
            raise IllegalCommand(f"{self._source}: {error}; compile it again") from error

    @cached_property
    def _hazard(self) -> HazardError | None:
        hazards = find_hazards(self._streams[Engine.COMPUTE], self._streams[Engine.DMA])
        if not hazards:
            return None
        first = hazards[0]
        return HazardError(
            f"{self._source}: nothing orders compute command {first.compute.number} and DMA command "
            f"{first.dma.number}, and both touch {first.region.space} {first.region.start:#x} to {first.region.end:#x}"
            f" (and {len(hazards) - 1} more); correct the waits"
        )

    def run(self, inputs: Mapping[str, Array], check: bool = True) -> dict[str, Array]:
        """See LoadedModel."""
        if check:
            self.check()
        machine = Machine(self._content.end_address - DDR_BASE)
        self._machine = machine
        weights = np.frombuffer(self._content.weights, np.uint8)
        if weights.size:
            machine.ddr_bytes(self._content.weights_address, weights.size)[...] = weights
        for info in self.inputs:
            if info.name not in inputs:
                raise UsageError(f"{self._source}: input '{info.name}' is missing; give an array for it")
            _ddr_view(machine, info)[...] = _fitting(inputs[info.name], info)
        # Without a hazard any order that respects the waits gives the same result: take that of the timing model.
        for entry in self._timeline.entries:
            entry.command.instruction.execute(machine)
        return {info.name: _ddr_view(machine, info).copy() for info in self.outputs}

    def check(self) -> None:
        """See LoadedModel."""
        if self._hazard is not None:
            raise self._hazard

    def read(self, address: int, shape: tuple[int, ...], storage: ScalarType) -> Array:
        """See LoadedModel."""
        return _ddr_view(self._machine, TensorInfo("", shape, storage, address)).copy()

    def timeline(self, profile: str) -> Timeline:
        """See LoadedModel."""
        return self._timeline

    def disassemble(self) -> str:
        """Both streams in the order of the timing model: first cycle, engine, own number, wait, command."""
        return "\n".join(
            f"{entry.start:8} {entry.command.engine.name:<7} {entry.command.number:5} wait {entry.command.wait:<5} "
            f"{entry.command.instruction.describe()}"
            for entry in self._timeline.entries
        )

    @property
    def memory(self) -> Mapping[str, int]:
        """See LoadedModel."""
        return {
            "weights": len(self._content.weights),
            "activations": self._content.activations_bytes,
            "code": len(self._content.compute) + len(self._content.dma),
            "file": self._size_bytes,
        }

    @property
    def device_bytes(self) -> Mapping[str, int]:
        """See LoadedModel: inputs and outputs lie with the activations."""
        return {name: self.memory[name] for name in ("weights", "activations", "code")}


def _ddr_view(machine: Machine, info: TensorInfo) -> Array:
    """An input or output in DDR."""
    size: Four = (1, 1, 1, math.prod(info.shape))
    dtype = DType.of(TensorType(info.shape, info.element).storage)
    return machine.strided(Strided(info.address, size, (size[3], size[3], size[3], 1), dtype)).reshape(info.shape)


def _fitting(array: Array, info: TensorInfo) -> Array:
    """An input as the file stores it; another shape, or values that the element type cannot hold, are a mistake."""
    if array.shape != info.shape:
        raise UsageError(f"input '{info.name}' is {array.shape}, the file expects {info.shape}")
    stored = array.astype(DType.of(TensorType(info.shape, info.element).storage).numpy)
    if stored.dtype.kind in "iu" and not np.array_equal(stored, array):
        raise UsageError(f"input '{info.name}' holds values that {stored.dtype} cannot represent; quantize it first")
    return stored
