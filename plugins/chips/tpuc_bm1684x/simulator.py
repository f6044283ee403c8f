"""Simulate a `.bmodel`: decode its commands once and execute them bit-exactly for any number of inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from tpuc.api import (
    CorruptFile,
    DecodedStreams,
    Engine,
    Region,
    Unsupported,
    UsageError,
)
from tpuc_chip_parts.simulator import FileSimulator, HostStep, Step, call_function

from tpuc_bm1684x.container import BModel, CpuLayer, Stage, SubNet, Tensor
from tpuc_bm1684x.container.model import SubNetMode
from tpuc_bm1684x.cores import decode_cores, decode_group
from tpuc_bm1684x.isa.geometry import DDR_BASE, DDR_LIMIT_BYTES, RESET_INPUT
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.isa.types import Array
from tpuc_bm1684x.layers import layer_function, layer_functions
from tpuc_bm1684x.machine import UNWRITTEN, Machine


class Simulator(FileSimulator):
    """One network of a file with its memories. The constructor decodes; `run` may be called any number of times."""

    part_name = "group"
    target = BM1684X
    machine: Machine

    def __init__(self, model: BModel, net: str | None = None, source: str = "bmodel", stage: int = 0) -> None:
        self.model = model
        self.stage = _choose_stage(model, net, source, stage, self.target)
        self.steps = tuple(_decode_subnets(self.stage.subnets, source, self.target))
        self._lmem_bytes = _lmem_high_water(self.parts, self.target)
        super().__init__(source, self._memories(source))
        self._weights_touched, self._is_first_run = self._writes_weights(), True

    def _memories(self, source: str) -> Machine:
        """The memories of the chip, with the weights in DDR."""
        first, size = _ddr_extent(self.stage, source)
        keeps = self.reset_input is not None
        cleared = self.stage.context_address if keeps else self.stage.writable_address
        self._context = slice(cleared - first, size)
        machine = Machine(size)
        if keeps:  # the runtime clears nothing
            machine.ddr[:] = UNWRITTEN & 0xFF
        if self.stage.coefficients is not None:
            start = self.stage.coefficients.address - first
            data = np.frombuffer(self.stage.coefficients.data, np.uint8)
            machine.ddr[start : start + data.size] = data
        return machine

    @classmethod
    def from_bytes(cls, data: bytes, net: str | None = None, source: str = "bmodel") -> Simulator:
        """Load a file; raises CorruptFile, IllegalCommand or Unsupported."""
        return cls(BModel.from_bytes(data, cls.target.file_chip), net, source)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in self.stage.inputs if tensor.name != RESET_INPUT)

    @property
    def reset_input(self) -> Tensor | None:
        """The input that `forget` and `run` set: states start again where it is 1."""
        return next((tensor for tensor in self.stage.inputs if tensor.name == RESET_INPUT), None)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.stage.outputs

    def given_regions(self) -> Iterator[Region]:
        yield from map(self._region_of, self.inputs)
        if self.stage.coefficients is not None:
            start = self.stage.coefficients.address
            yield Region("ddr", start, start + len(self.stage.coefficients.data))

    def _computed(self, step: HostStep, inputs: Sequence[Array]) -> Sequence[Array]:
        return call_function(layer_functions()[step.function], inputs, step.arguments, step.outputs)

    def _reset(self) -> None:
        self.machine.reset(self._lmem_bytes)
        self.machine.ddr[self._context] = 0
        self._load_weights()  # the runtime refuses commands that write to constants

    def forget(self) -> None:
        self._is_first_run = True

    def _put_inputs(self, inputs: Mapping[str, Array]) -> None:
        super()._put_inputs(inputs)
        if self.reset_input is not None:
            self.tensor(self.reset_input)[...] = self._is_first_run
        self._is_first_run = False

    def _load_weights(self) -> None:
        if self._weights_touched and self.stage.coefficients is not None:
            data = np.frombuffer(self.stage.coefficients.data, np.uint8)
            self.machine.ddr[: data.size] = data

    def _memory(self, address: int, size: int) -> Array:
        start = address - DDR_BASE
        if start < 0 or start + size > self.machine.ddr.size:
            raise UsageError(f"{self.source}: {size} bytes at {address:#x} are outside the memory of this program")
        return self.machine.ddr[start : start + size]

    def _writes_weights(self) -> bool:
        end = self.stage.writable_address
        return any(region.space == "ddr" and region.start < end for region in self._written())


# -- loading -----------------------------------------------------------------------------------------------------------


def _choose_stage(model: BModel, name: str | None, source: str, number: int, target: Target) -> Stage:
    names = [net.name for net in model.nets]
    if name is not None and name not in names:
        raise UsageError(f"{source}: no network {name!r}; the file has {', '.join(names)}")
    net = model.nets[names.index(name) if name is not None else 0]
    stage = net.stages[number]
    if net.address_mode not in target.address_modes:
        known = "tagged addresses (2)" if target.ddr_tags else "the basic mode and separate inputs and outputs (0, 1)"
        raise Unsupported(f"{source}: address mode {net.address_mode}: the simulator supports {known}; recompile it")
    if stage.is_dynamic:
        raise Unsupported(f"{source}: a dynamic network; compile it for fixed shapes")
    for subnet in stage.subnets:
        if subnet.mode not in (SubNetMode.TPU, SubNetMode.CPU):
            raise Unsupported(f"{source}: a {subnet.mode.name} subnet; the simulator runs TPU and CPU code only")
    return stage


def _ddr_extent(stage: Stage, source: str) -> tuple[int, int]:
    """The first DDR address and the number of bytes that the program may access."""
    end = max(stage.context_address + stage.context_bytes, stage.io_address + stage.io_bytes)
    if stage.coefficients is not None:
        weights_end = stage.coefficients.address + len(stage.coefficients.data)
        end = max(end, weights_end)
        if stage.coefficients.address < DDR_BASE:
            raise CorruptFile(f"{source}: weights at {stage.coefficients.address:#x}, below DDR; the file is damaged")
    if stage.writable_address < DDR_BASE or end - DDR_BASE > DDR_LIMIT_BYTES:
        raise CorruptFile(
            f"{source}: context at {stage.context_address:#x}, {stage.context_bytes} bytes; the file is damaged"
        )
    layers = [subnet for subnet in stage.subnets if subnet.layer is not None]
    inner = [tensor for subnet in layers for tensor in (*subnet.inputs, *subnet.outputs)]
    for tensor in (*stage.inputs, *stage.outputs, *inner):
        if not DDR_BASE <= tensor.address <= tensor.address + tensor.bytes <= end:
            raise CorruptFile(
                f"{source}: tensor {tensor.name!r} at {tensor.address:#x} is outside the program's memory"
            )
    return DDR_BASE, end - DDR_BASE


def _decode_subnets(subnets: Iterable[SubNet], source: str, target: Target) -> Iterator[Step]:
    index = 0
    for subnet in subnets:
        if subnet.layer is not None:
            yield _decode_layer(subnet, subnet.layer, source)
            continue
        for group in subnet.groups:
            where = f"{source}: group {index}"
            streams = decode_group(group, where, target)
            yield DecodedStreams.of(streams[Engine.COMPUTE], streams[Engine.DMA], where)
            index += 1
        if subnet.cores:
            yield from decode_cores(subnet.cores, source, target)


def _decode_layer(subnet: SubNet, layer: CpuLayer, source: str) -> HostStep:
    function = layer_function(layer.number)
    if function is None:
        known = ", ".join(sorted(f"{one.layer} ({name})" for name, one in layer_functions().items()))
        raise Unsupported(
            f"{source}: layer {layer.number} of the processor is not simulated, only {known}; run this file on the "
            "vendor's runtime"
        )
    made = {tensor.name for tensor in subnet.outputs}
    inputs = tuple(tensor for tensor in subnet.inputs if tensor.name not in made)
    return HostStep(function.function, function.unpack(layer.parameters), inputs, subnet.outputs)


def _lmem_high_water(groups: Iterable[DecodedStreams], target: Target) -> int:
    """Bytes per lane that the program may write, rounded up to words."""
    ends = [
        region.end
        for group in groups
        for command in group.order
        for region in command.instruction.writes()
        if region.space == "lmem"
    ]
    return min(target.lane_bytes, -(-max(ends, default=0) // 4) * 4)
