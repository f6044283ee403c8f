"""A `.bmodel` as the compiler sees a compiled file: simulator, timeline, disassembly and sizes in one."""

from __future__ import annotations

from collections.abc import Mapping

from tpuc.api import Instruction, TensorInfo
from tpuc.api.simulation import SimulatedModel, errors_name
from tpuc_chip_parts.files import tensor_info

from tpuc_bm1684x.container import BModel, Tensor
from tpuc_bm1684x.disassembler import disassemble
from tpuc_bm1684x.simulator import Simulator


class LoadedBModel(SimulatedModel):
    """The first network of a file, decoded once."""

    def __init__(self, data: bytes, source: str) -> None:
        self._data = data
        self._model = BModel.from_bytes(data)
        self._simulator = Simulator(self._model, source=source)
        inputs = [_info(tensor, is_input=True) for tensor in self._simulator.inputs]
        outputs = [_info(tensor, is_input=False) for tensor in self._simulator.outputs]
        super().__init__(self._simulator, inputs, outputs)

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
    return tensor_info(tensor, tensor.zero_point, is_input=is_input)
