"""A `.cvimodel` as the compiler sees a compiled file: simulator, timeline, disassembly and sizes in one."""

from __future__ import annotations

from collections.abc import Mapping

from tpuc.api import (
    F32,
    CorruptFile,
    ElementType,
    IllegalCommand,
    Instruction,
    LoadedModel,
    ScalarType,
    TensorInfo,
    Timeline,
    Uniform,
    Unsupported,
    make_timelines,
    numpy_dtype,
)

from tpuc_cv183x.container import CviModel, SectionKind, Tensor, TensorType
from tpuc_cv183x.disassembler import disassemble
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


class LoadedCviModel(LoadedModel):
    """The first program of a file, decoded once."""

    ddr_spaces = ("gmem",)

    def __init__(self, data: bytes, source: str) -> None:
        self._data = data
        self._model = CviModel.from_bytes(data)
        self._simulator = Simulator(self._model, source=source)
        self.inputs = tuple(_info(tensor, is_input=True) for tensor in self._simulator.inputs)
        self.outputs = tuple(_info(tensor, is_input=False) for tensor in self._simulator.outputs)

    def run(self, inputs: Mapping[str, Array], check: bool = True) -> dict[str, Array]:
        return self._simulator.run(inputs, check=check)

    def check(self) -> None:
        self._simulator.check()

    def read(self, address: int, shape: tuple[int, ...], storage: ScalarType) -> Array:
        return self._simulator.read(address, shape, numpy_dtype(storage))

    def timeline(self, profile: str) -> Timeline:
        from tpuc_cv183x.timing import cycles

        return make_timelines(self._simulator.segments, lambda instruction: cycles(instruction, profile))

    def timeline_if(self, profile: str, ddr_speed: float) -> Timeline:
        from tpuc_cv183x.timing import cycles
        from tpuc_cv183x.timing_dma import start_cycles

        def duration(instruction: Instruction) -> int:
            count = cycles(instruction, profile)
            if not any(self.ddr_bytes(instruction)):
                return count
            start = start_cycles(instruction, profile)
            return max(1, start + int((count - start) / ddr_speed))

        return make_timelines(self._simulator.segments, duration)

    def ddr_bytes(self, instruction: Instruction) -> tuple[int, int]:
        from tpuc_cv183x.timing_dma import moved_bytes

        return moved_bytes(instruction)

    def disassemble(self) -> str:
        return disassemble(self._data)

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


def load_model(data: bytes, source: str) -> LoadedCviModel:
    """Decode a file; raises CorruptFile, IllegalCommand or Unsupported that name it."""
    try:
        return LoadedCviModel(data, source)
    except (CorruptFile, IllegalCommand, Unsupported) as error:
        if str(error).startswith(source):
            raise
        raise type(error)(f"{source}: {error}") from error


def _info(tensor: Tensor, *, is_input: bool) -> TensorInfo:
    """Bytes with a scale are quantised; that of an input is what real values are multiplied by."""
    element: ElementType = ScalarType(_ELEMENTS[tensor.type])
    stored = _STORED.get(tensor.type)
    if stored is not None and tensor.scale > 0 and tensor.scale != 1.0:
        element = Uniform(ScalarType(stored), F32, 1.0 / tensor.scale if is_input else tensor.scale)
    return TensorInfo(tensor.name, tensor.shape, element, tensor.address)
