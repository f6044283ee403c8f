"""A `.cvimodel` as the compiler sees a compiled file: simulator, timeline, disassembly and sizes in one."""

from __future__ import annotations

from collections.abc import Mapping

from tpuc.api import Instruction, ScalarType, TensorInfo, numpy_dtype
from tpuc.api.simulation import SimulatedModel, errors_name, stored_element

from tpuc_cv183x.container import CviModel, SectionKind, Tensor, TensorType
from tpuc_cv183x.disassembler import disassemble
from tpuc_cv183x.isa import Target
from tpuc_cv183x.isa.types import Array
from tpuc_cv183x.simulator import Simulator

_ELEMENTS = {
    TensorType.F32: "f32",
    TensorType.INT32: "si32",
    TensorType.UINT32: "ui32",
    TensorType.BF16: "bf16",
    TensorType.INT16: "si16",
    TensorType.UINT16: "ui16",
    TensorType.INT8: "si8",
    TensorType.UINT8: "ui8",
}


_STORED = {TensorType.INT8: "i8", TensorType.UINT8: "u8"}
"""As uniform types spell them."""


class LoadedCviModel(SimulatedModel):
    """The first program of a file, decoded once."""

    ddr_spaces = ("gmem",)

    def __init__(self, data: bytes, source: str, target: Target) -> None:
        self._data, self._target = data, target
        self._model = CviModel.from_bytes(data, target)
        self._simulator = Simulator(self._model, source=source)
        inputs = [_info(tensor, is_input=True) for tensor in self._simulator.inputs]
        outputs = [_info(tensor, is_input=False) for tensor in self._simulator.outputs]
        super().__init__(self._simulator, self._simulator.segments, inputs, outputs)

    def read(self, address: int, shape: tuple[int, ...], storage: ScalarType) -> Array:
        return self._simulator.read(address, shape, numpy_dtype(storage))

    def cycles(self, instruction: Instruction, profile: str) -> int:
        from tpuc_cv183x.timing import cycles

        return cycles(instruction, profile)

    def start_cycles(self, instruction: Instruction, profile: str) -> int:
        from tpuc_cv183x.timing_dma import start_cycles

        return start_cycles(instruction, profile)

    def ddr_bytes(self, instruction: Instruction) -> tuple[int, int]:
        from tpuc_cv183x.timing_dma import moved_bytes

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


def load_model(data: bytes, source: str, target: Target) -> LoadedCviModel:
    """Decode a file; raises CorruptFile, IllegalCommand or Unsupported that name it."""
    with errors_name(source):
        return LoadedCviModel(data, source, target)


def _info(tensor: Tensor, *, is_input: bool) -> TensorInfo:
    element = stored_element(_ELEMENTS[tensor.type], _STORED.get(tensor.type), tensor.scale, is_input=is_input)
    return TensorInfo(tensor.name, tensor.shape, element, tensor.address)
