"""A `.bmodel` as the compiler sees a compiled file: simulator, timeline, disassembly and sizes in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy.typing as npt
from tpuc.api import (
    F32,
    CorruptFile,
    ElementType,
    Instruction,
    LoadedModel,
    ScalarType,
    TensorInfo,
    Timeline,
    Uniform,
    Unsupported,
    make_timelines,
)

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


class LoadedBModel(LoadedModel):
    """The first network of a file, decoded once."""

    def __init__(self, data: bytes, source: str) -> None:
        self._data = data
        self._model = BModel.from_bytes(data)
        self._simulator = Simulator(self._model, source=source)
        self.inputs = tuple(_info(tensor, is_input=True) for tensor in self._simulator.inputs)
        self.outputs = tuple(_info(tensor, is_input=False) for tensor in self._simulator.outputs)

    def run(self, inputs: Mapping[str, Array], check: bool = True) -> dict[str, Array]:
        return self._simulator.run(inputs, check=check)

    def check(self) -> None:
        self._simulator.check()

    def read(self, address: int, shape: tuple[int, ...], storage: ScalarType) -> Array:
        return self._simulator.read(address, shape, dtype_of(storage))

    def timeline(self, profile: str) -> Timeline:
        from tpuc_bm1684x.timing import cycles

        return make_timelines(self._simulator.groups, cycles)

    def timeline_if(self, profile: str, ddr_speed: float) -> Timeline:
        from tpuc_bm1684x.timing import cycles

        def duration(instruction: Instruction) -> int:
            count = cycles(instruction)
            return max(1, int(count / ddr_speed)) if any(self.ddr_bytes(instruction)) else count

        return make_timelines(self._simulator.groups, duration)

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
    try:
        return LoadedBModel(data, source)
    except (CorruptFile, Unsupported) as error:
        if str(error).startswith(source):
            raise
        raise type(error)(f"{source}: {error}") from error


def _info(tensor: Tensor, *, is_input: bool) -> TensorInfo:
    """Integers with a scale are quantised; that of an input is what real values are multiplied by."""
    name = tensor.type.name.lower()
    element: ElementType = ScalarType(_ELEMENTS[name])
    if name in _STORED and (tensor.scale, tensor.zero_point) != (1.0, 0) and tensor.scale > 0:
        scale = 1.0 / tensor.scale if is_input else tensor.scale
        element = Uniform(ScalarType(_STORED[name]), F32, scale, tensor.zero_point)
    return TensorInfo(tensor.name, tensor.shape, element, tensor.address)
