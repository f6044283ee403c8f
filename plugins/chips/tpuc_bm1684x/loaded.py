"""A `.bmodel` as the compiler sees a compiled file: simulator, timeline, disassembly and sizes in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy.typing as npt
from tpuc.api import Instruction, ScalarType, TensorInfo
from tpuc.api.simulation import SimulatedModel, errors_name, stored_element

from tpuc_bm1684x.container import BModel, Tensor
from tpuc_bm1684x.disassembler import disassemble
from tpuc_bm1684x.operands import dtype_of
from tpuc_bm1684x.simulator import Simulator

Array: TypeAlias = npt.NDArray[Any]

_ELEMENTS = {
    "f32": "f32",
    "f16": "f16",
    "bf16": "bf16",
    "int8": "si8",
    "uint8": "ui8",
    "int16": "si16",
    "uint16": "ui16",
    "int32": "si32",
    "uint32": "ui32",
}
_STORED = {"int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16"}


class LoadedBModel(SimulatedModel):
    """The first network of a file, decoded once."""

    def __init__(self, data: bytes, source: str) -> None:
        self._data = data
        self._model = BModel.from_bytes(data)
        self._simulator = Simulator(self._model, source=source)
        inputs = [_info(tensor, is_input=True) for tensor in self._simulator.inputs]
        outputs = [_info(tensor, is_input=False) for tensor in self._simulator.outputs]
        super().__init__(self._simulator, self._simulator.groups, inputs, outputs)

    def read(self, address: int, shape: tuple[int, ...], storage: ScalarType) -> Array:
        return self._simulator.read(address, shape, dtype_of(storage))

    def cycles(self, instruction: Instruction, profile: str) -> int:
        from tpuc_bm1684x.timing import cycles

        return cycles(instruction)

    def ddr_bytes(self, instruction: Instruction) -> tuple[int, int]:
        from tpuc_bm1684x.traffic import moved_bytes

        return moved_bytes(instruction)

    def disassemble(self) -> str:
        return disassemble(self._data)

    @property
    def memory(self) -> Mapping[str, int]:
        stage = self._model.nets[0].stages[0]
        weights = 0 if stage.coefficients is None else len(stage.coefficients.data)
        code = sum(len(group.tiu) + len(group.gdma) for group in stage.groups)
        return {
            "weights": weights,
            "activations": stage.context_bytes + stage.io_bytes,
            "code": code,
            "file": len(self._data),
        }


def load_model(data: bytes, source: str) -> LoadedBModel:
    """Decode a file; raises CorruptFile, IllegalCommand or Unsupported that name it."""
    with errors_name(source):
        return LoadedBModel(data, source)


def _info(tensor: Tensor, *, is_input: bool) -> TensorInfo:
    name = tensor.type.name.lower()
    element = stored_element(_ELEMENTS[name], _STORED.get(name), tensor.scale, tensor.zero_point, is_input=is_input)
    return TensorInfo(tensor.name, tensor.shape, element, tensor.address)
