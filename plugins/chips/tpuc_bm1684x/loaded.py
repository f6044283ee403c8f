"""A loaded `.bmodel`: simulation, timeline, disassembly and memory sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tpuc.api import HostCall, Instruction, NetworkEntry
from tpuc.api.simulation import SimulatedModel, errors_name
from tpuc_chip_parts.files import tensor_info
from tpuc_chip_parts.simulator import host_calls

from tpuc_bm1684x.container import BModel
from tpuc_bm1684x.container.combining import stages
from tpuc_bm1684x.container.model import CHIP
from tpuc_bm1684x.disassembler import disassemble
from tpuc_bm1684x.simulator import Simulator


class LoadedBModel(SimulatedModel):
    """One network of a file for one set of input shapes, decoded once, on a kind of simulator."""

    def __init__(self, data: bytes, source: str, index: int, kind: type[Simulator] = Simulator) -> None:
        self._data = data
        self._model = BModel.from_bytes(data, kind.target.file_chip)
        net, stage = list(stages(self._model))[index]
        self._simulator = kind(self._model, net.name, source, stage)
        self.shared_profile = kind.target.shared_profile
        inputs = [tensor_info(tensor, is_input=True) for tensor in self._simulator.inputs]
        outputs = [tensor_info(tensor, is_input=False) for tensor in self._simulator.outputs]
        super().__init__(self._simulator, inputs, outputs)
        if self._simulator.reset_input is not None:
            self.reset_input = tensor_info(self._simulator.reset_input, is_input=True)

    def reset(self) -> None:
        self._simulator.forget()

    def cycles(self, instruction: Instruction, profile: str) -> int:
        from tpuc_bm1684x.timing import cycles

        return cycles(instruction, self._simulator.target.profiles[profile].rates)

    def ddr_bytes(self, instruction: Instruction) -> tuple[int, int]:
        from tpuc_bm1684x.traffic import moved_bytes

        return moved_bytes(instruction)

    def disassemble(self) -> str:
        return disassemble(self._data, self._simulator.target)

    @property
    def host_calls(self) -> Sequence[HostCall]:
        return tuple(host_calls(self._simulator.steps))

    @property
    def memory(self) -> Mapping[str, int]:
        stage = self._simulator.stage
        weights = 0 if stage.coefficients is None else len(stage.coefficients.data)
        code = sum(len(group.tiu) + len(group.gdma) for group in stage.groups)
        return {
            "weights": weights,
            "activations": stage.context_bytes + stage.io_bytes,
            "code": code,
            "file": len(self._data),
        }


def load_model(data: bytes, source: str, index: int = 0, kind: type[Simulator] = Simulator) -> LoadedBModel:
    """Decode one network of a file; CorruptFile, IllegalCommand and Unsupported errors name the file."""
    with errors_name(source):
        return LoadedBModel(data, source, index, kind)


def networks_in(data: bytes, source: str, chip: str = CHIP) -> list[NetworkEntry]:
    """List the networks of a file, one entry per set of input shapes."""
    with errors_name(source):
        model = BModel.from_bytes(data, chip)
        return [
            NetworkEntry(net.name, tuple(tensor.shape for tensor in net.stages[number].inputs))
            for net, number in stages(model)
        ]
