"""Runs a `.bmodel`: decodes the command bytes once, then executes them bit for bit for any number of inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import (
    Command,
    CorruptFile,
    Engine,
    HazardError,
    IllegalCommand,
    Region,
    Unsupported,
    UsageError,
    find_hazards,
)

from tpuc_bm1684x.container import BModel, CommandGroup, Stage, Tensor
from tpuc_bm1684x.container.model import SubNetMode
from tpuc_bm1684x.isa.command import Bm1684xInstruction
from tpuc_bm1684x.isa.geometry import DDR_BASE, LANE_BYTES
from tpuc_bm1684x.isa.stream import Any1684x, decode_stream
from tpuc_bm1684x.isa.system import RawCommand
from tpuc_bm1684x.isa.types import Array, DType
from tpuc_bm1684x.machine import Machine

DDR_LIMIT_BYTES = 1 << 32
"""Refuse files that ask for more memory than a simulation can sensibly hold."""

Watcher = Callable[[int, Command], None]
"""Called after every executed command with the number of its group."""


@dataclass(frozen=True)
class DecodedGroup:
    """Both streams of one command group, and one legal order of execution."""

    compute: tuple[Command, ...]
    dma: tuple[Command, ...]
    order: tuple[Command, ...]


class Simulator:
    """One network of a file with its memories. Decoding happens here, `run` may be called many times."""

    def __init__(self, model: BModel, net: str | None = None, source: str = "bmodel") -> None:
        self.source = source
        self.model = model
        self.stage = _choose_stage(model, net, source)
        self.groups = tuple(
            _decode_group(group, f"{source}: group {index}") for index, group in enumerate(self.stage.groups)
        )
        self._checked = False
        self._lmem_bytes = _lmem_high_water(self.groups)
        first, size = _ddr_extent(self.stage, source)
        self._context = slice(self.stage.context_address - first, size)
        self.machine = Machine(size)
        if self.stage.coefficients is not None:
            start = self.stage.coefficients.address - first
            data = np.frombuffer(self.stage.coefficients.data, np.uint8)
            self.machine.ddr[start : start + data.size] = data
        self._weights_touched = self._writes_weights()

    @classmethod
    def from_bytes(cls, data: bytes, net: str | None = None, source: str = "bmodel") -> Simulator:
        """Load a file; raises CorruptFile, IllegalCommand or Unsupported."""
        return cls(BModel.from_bytes(data), net, source)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What `run` takes."""
        return self.stage.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """What `run` gives."""
        return self.stage.outputs

    # -- checking ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Illegal commands (IllegalCommand) and unordered conflicts (HazardError), without running; done once."""
        if self._checked:
            return
        for index, group in enumerate(self.groups):
            for command in (*group.compute, *group.dma):
                with _Naming(self.source, index, command):
                    _instruction(command).check()
            hazards = find_hazards(group.compute, group.dma)
            if hazards:
                first = hazards[0]
                raise HazardError(
                    f"{self.source}: group {index}: {_label(first.compute)} and {_label(first.dma)} may run at the "
                    f"same time and both use {_format_region(first.region)}; let the later one wait for the earlier one"
                )
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
        for index, group in enumerate(self.groups):
            for command in group.order:
                with _Naming(self.source, index, command):
                    command.instruction.execute(self.machine)
                if watch is not None:
                    watch(index, command)
        return {tensor.name: self._tensor(tensor).copy() for tensor in self.outputs}

    def _reset(self) -> None:
        """Forget the last run, so that every run gives the same result."""
        self.machine.reset(self._lmem_bytes)
        self.machine.ddr[self._context] = 0
        if self._weights_touched and self.stage.coefficients is not None:
            data = np.frombuffer(self.stage.coefficients.data, np.uint8)
            self.machine.ddr[: data.size] = data

    def _put_inputs(self, inputs: Mapping[str, Array]) -> None:
        names = [tensor.name for tensor in self.inputs]
        if unknown := sorted(set(inputs) - set(names)):
            raise UsageError(f"{self.source}: no input {unknown[0]!r}; the file has {', '.join(names)}")
        for tensor in self.inputs:
            if tensor.name not in inputs:
                raise UsageError(f"{self.source}: input {tensor.name!r} is missing; give all of {', '.join(names)}")
            values = np.asarray(inputs[tensor.name])
            if values.dtype.itemsize != tensor.type.numpy.itemsize or values.size != math.prod(tensor.shape):
                raise UsageError(
                    f"{self.source}: input {tensor.name!r} is {tensor.type.name.lower()} of shape {tensor.shape}, "
                    f"got {values.dtype} of shape {values.shape}; convert it"
                )
            self._tensor(tensor)[...] = values.reshape(tensor.shape).view(tensor.type.numpy)

    def _tensor(self, tensor: Tensor) -> Array:
        start = tensor.address - DDR_BASE
        return self.machine.ddr[start : start + tensor.bytes].view(tensor.type.numpy).reshape(tensor.shape)

    def read(self, address: int, shape: Sequence[int], dtype: DType) -> Array:
        """A dense tensor in DDR as the last run left it."""
        size = math.prod(shape) * dtype.bytes
        start = address - DDR_BASE
        if start < 0 or start + size > self.machine.ddr.size:
            raise UsageError(f"{self.source}: {size} bytes at {address:#x} are outside the memory of this program")
        return self.machine.ddr[start : start + size].view(dtype.numpy).reshape(tuple(shape)).copy()

    def _writes_weights(self) -> bool:
        end = self.stage.context_address
        return any(
            region.space == "ddr" and region.start < end
            for group in self.groups
            for command in group.dma
            for region in command.instruction.writes()
        )


# -- loading -----------------------------------------------------------------------------------------------------------


def _choose_stage(model: BModel, name: str | None, source: str) -> Stage:
    names = [net.name for net in model.nets]
    if name is not None and name not in names:
        raise UsageError(f"{source}: no network {name!r}; the file has {', '.join(names)}")
    net = model.nets[names.index(name) if name is not None else 0]
    stage = net.stages[0]
    if net.address_mode != 0:
        raise Unsupported(f"{source}: address mode {net.address_mode}: the simulator knows mode 0 only; recompile it")
    if stage.is_dynamic:
        raise Unsupported(f"{source}: a dynamic network; compile it for fixed shapes")
    for subnet in stage.subnets:
        if subnet.mode is not SubNetMode.TPU:
            raise Unsupported(f"{source}: a {subnet.mode.name} subnet; the simulator runs TPU code only")
    return stage


def _ddr_extent(stage: Stage, source: str) -> tuple[int, int]:
    """The first DDR address and the bytes that the program may touch."""
    end = stage.context_address + stage.context_bytes
    if stage.coefficients is not None:
        weights_end = stage.coefficients.address + len(stage.coefficients.data)
        end = max(end, weights_end)
        if stage.coefficients.address < DDR_BASE:
            raise CorruptFile(f"{source}: weights at {stage.coefficients.address:#x}, below DDR; the file is damaged")
    if stage.context_address < DDR_BASE or end - DDR_BASE > DDR_LIMIT_BYTES:
        raise CorruptFile(
            f"{source}: context at {stage.context_address:#x}, {stage.context_bytes} bytes; the file is damaged"
        )
    for tensor in (*stage.inputs, *stage.outputs):
        if not DDR_BASE <= tensor.address <= tensor.address + tensor.bytes <= end:
            raise CorruptFile(
                f"{source}: tensor {tensor.name!r} at {tensor.address:#x} is outside the program's memory"
            )
    return DDR_BASE, end - DDR_BASE


def _decode_group(group: CommandGroup, where: str) -> DecodedGroup:
    try:
        compute = decode_stream(Engine.COMPUTE, group.tiu)
        dma = decode_stream(Engine.DMA, group.gdma)
    except (CorruptFile, IllegalCommand) as error:
        raise type(error)(f"{where}: {error}") from error
    for name, stream, count in (("compute", compute, group.tiu_count), ("DMA", dma, group.gdma_count)):
        if len(stream.commands) + 1 != count:
            raise CorruptFile(
                f"{where}: {count} {name} commands promised, {len(stream.commands) + 1} found; the file is damaged"
            )
    return DecodedGroup(compute.commands, dma.commands, serial_order(compute.commands, dma.commands, where))


def serial_order(compute: Sequence[Command], dma: Sequence[Command], where: str = "program") -> tuple[Command, ...]:
    """One order that respects all waits: compute commands run ahead as far as they may."""
    queues: dict[Engine, Sequence[Command]] = {Engine.COMPUTE: compute, Engine.DMA: dma}
    done = dict.fromkeys(Engine, 0)
    order: list[Command] = []
    total = len(compute) + len(dma)
    while len(order) < total:
        for engine in Engine:
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


def _lmem_high_water(groups: Iterable[DecodedGroup]) -> int:
    """The bytes per lane that the program may write."""
    ends = [
        region.end
        for group in groups
        for command in group.order
        for region in command.instruction.writes()
        if region.space == "lmem"
    ]
    return min(LANE_BYTES, -(-max(ends, default=0) // 4) * 4)


# -- messages ----------------------------------------------------------------------------------------------------------


def _instruction(command: Command) -> Any1684x:
    instruction = command.instruction
    assert isinstance(instruction, Bm1684xInstruction | RawCommand)
    return instruction


def _label(command: Command) -> str:
    engine = "compute" if command.engine is Engine.COMPUTE else "DMA"
    return f"{engine} command {command.number} ({_instruction(command).mnemonic()})"


def _format_region(region: Region) -> str:
    lanes = f", lanes {region.first_lane}..{region.end_lane - 1}" if region.space == "lmem" else ""
    return f"{region.space} {region.start:#x}..{region.end:#x}{lanes}"


class _Naming:
    """Puts file, group and command in front of what an instruction complains about."""

    def __init__(self, source: str, group: int, command: Command) -> None:
        self.source, self.group, self.command = source, group, command

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, IllegalCommand):
            engine = "compute" if self.command.engine is Engine.COMPUTE else "DMA"
            raise IllegalCommand(
                f"{self.source}: group {self.group}: {engine} command {self.command.number}: {error}"
            ) from error
