"""A loaded `.cvimodel`: simulation, timeline, disassembly and memory sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tpuc.api import F32, HostCall, Instruction, NetworkEntry, ScalarType, TensorInfo, Uniform
from tpuc.api.simulation import SimulatedModel, errors_name
from tpuc_chip_parts.files import tensor_info
from tpuc_chip_parts.simulator import host_calls

from tpuc_cv18.container import CviModel, SectionKind, Tensor, TensorType
from tpuc_cv18.container.model import THRESHOLD_STEPS
from tpuc_cv18.disassembler import disassemble
from tpuc_cv18.isa import Target
from tpuc_cv18.isa.command import DmaInstruction
from tpuc_cv18.isa.geometry import FIRST_IO
from tpuc_cv18.runtimes import parse_version, refusal
from tpuc_cv18.simulator import Simulator

_ROUNDING = 2.0**-22
"""Largest relative error of the product of a float32 scale and its float32 reciprocal."""
_BYTES = {TensorType.INT8: "i8", TensorType.UINT8: "u8"}


class LoadedCviModel(SimulatedModel):
    """One program of a file, decoded once. `written`: the instructions that it was written with, if they are known."""

    ddr_spaces = ("gmem",)

    def __init__(
        self, data: bytes, source: str, target: Target, index: int, written: Sequence[Instruction] | None = None
    ) -> None:
        self._data, self._target = data, target
        self._model = CviModel.from_bytes(data, target)
        self._simulator = Simulator(self._model, index, source, written)
        inputs = [_input_info(tensor) for tensor in self._simulator.inputs]
        outputs = [tensor_info(tensor, is_input=False) for tensor in self._simulator.outputs]
        super().__init__(self._simulator, inputs, outputs)
        border = {info.name for info in (*inputs, *outputs)}
        inner = [one for one in self._simulator.program.tensors if one.tag is not None and one.name not in border]
        self.inner_tensors = [tensor_info(tensor, is_input=False) for tensor in inner]

    def reset(self) -> None:
        self._simulator.forget()

    def cycles(self, instruction: Instruction, profile: str) -> int:
        from tpuc_cv18.timing import cycles

        return cycles(instruction, profile)

    def start_cycles(self, instruction: Instruction, profile: str) -> int:
        from tpuc_cv18.timing import profile_of
        from tpuc_cv18.timing_dma import start_cycles

        assert isinstance(instruction, DmaInstruction), "an instruction of another chip"
        return start_cycles(instruction, profile_of(instruction.target, profile))

    def ddr_bytes(self, instruction: Instruction) -> tuple[int, int]:
        from tpuc_cv18.timing_dma import moved_bytes

        return moved_bytes(instruction)

    def disassemble(self) -> str:
        return disassemble(self._data, self._target)

    @property
    def memory(self) -> Mapping[str, int]:
        sizes = dict.fromkeys(SectionKind, 0)
        for section in self._model.sections:
            sizes[section.kind] += len(section.data)
        program = self._simulator.program
        return {
            "weights": sizes[SectionKind.WEIGHT],
            "activations": program.shared_bytes + program.private_bytes,
            "code": sizes[SectionKind.CMDBUF] + sizes[SectionKind.DMABUF],
            "file": len(self._data),
        }

    @property
    def device_bytes(self) -> Mapping[str, int]:
        ends = dict[int, int]()
        for tensor in self._simulator.program.tensors:
            if tensor.tag is not None and tensor.tag >= FIRST_IO:
                ends[tensor.tag] = max(ends.get(tensor.tag, 0), tensor.offset + tensor.bytes)
        return {
            "weights": self.memory["weights"],
            "commands": self.memory["code"],
            "activations": self.memory["activations"],
            "inputs and outputs": sum(ends.values()),
        }

    @property
    def host_calls(self) -> Sequence[HostCall]:
        return tuple(host_calls(self._simulator.steps))

    def refused_by(self, runtime_version: str) -> str | None:
        return refusal(self._model.version, parse_version(runtime_version))


def _input_info(tensor: Tensor) -> TensorInfo:
    """Describe an input. The step is the rounded reciprocal of its scale, unless the threshold gives it exactly."""
    info = replace(tensor_info(tensor, is_input=True), frame=tensor.frame)
    step, storage = tensor.threshold / THRESHOLD_STEPS, _BYTES.get(tensor.type)
    if storage is None or abs(step * tensor.scale - 1) > _ROUNDING:
        return info
    element = Uniform(ScalarType(storage), F32, step, int(tensor.zero_point))
    return replace(info, element=element, rounds_evenly=True)


def load_model(
    data: bytes, source: str, target: Target, index: int = 0, written: Sequence[Instruction] | None = None
) -> LoadedCviModel:
    """Decode one program of a file; CorruptFile, IllegalCommand and Unsupported errors name the file."""
    with errors_name(source):
        return LoadedCviModel(data, source, target, index, written)


def networks_in(data: bytes, source: str, target: Target) -> list[NetworkEntry]:
    """List the programs of a file: one network with several sets of input shapes."""
    with errors_name(source):
        model = CviModel.from_bytes(data, target)
        return [
            NetworkEntry(model.name, tuple(program.tensor(name).shape for name in program.inputs))
            for program in model.programs
        ]
