"""Mutants of waits on the vendor's functional model, which is made to take commands in the two extreme orders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tpuc.api import DecodedStreams, Engine, IllegalCommand
from tpuc_chip_parts.simulator import HostStep
from tpuc_cv18.container import CviModel
from tpuc_cv18.isa.geometry import WEIGHTS, round_up, split_gmem
from tpuc_cv18.simulator import Simulator
from tpuc_cv183x.chip import CV183X

from tests.chips.cv18.oracle_runner import ORACLE
from tests.chips.mutants import Memories, led_by, random_inputs, with_results
from tests.chips.oracles import load_oracle
from tests.interop.hazard_checks import OracleRemovalConformance

pytestmark = pytest.mark.interop
GOLDEN = Path(__file__).parents[2] / "chips" / "cv183x" / "goldens" / "handmade_conv_int8.cvimodel"
ALIGNMENT = 4096


class OracleSubject:
    """A `.cvimodel` on the functional model, up to its host functions: what they take counts as results.

    The model takes both streams in turn, so each command is told to wait for all that come before it in the order.
    """

    def __init__(self, data: bytes, folder: Path) -> None:
        self._module = load_oracle(folder, ORACLE)
        simulator = Simulator(CviModel.from_bytes(data, CV183X))
        self.parts: Sequence[DecodedStreams] = simulator.parts
        assert simulator.steps[: len(self.parts)] == self.parts
        given = [tensor for step in simulator.steps if isinstance(step, HostStep) for tensor in step.inputs]
        self._results = given or simulator.outputs
        sizes, weights = list(simulator.memory_sizes), simulator.machine.gmem[WEIGHTS]
        sizes[WEIGHTS] = weights.size
        self._bases = np.cumsum([0, *(round_up(size, ALIGNMENT) for size in sizes)])
        self._oracle = self._module.Oracle(CV183X.name, int(self._bases[-1]))
        rng = np.random.default_rng(17)
        self._lmem = rng.integers(0, 256, self._oracle.lmem.shape, np.uint8)
        self._gmem = rng.integers(0, 256, self._oracle.gmem.shape, np.uint8)
        for base, start in enumerate(self._bases[:-1]):
            self._oracle.set_base(base, int(start))
        self._gmem[self._bases[WEIGHTS] :][: weights.size] = weights
        for tensor in simulator.inputs:
            values = random_inputs([tensor])[tensor.name].reshape(-1).view(np.uint8)
            self._gmem[self._offset(tensor.address) :][: values.size] = values

    def close(self) -> None:
        self._oracle.close()

    def _offset(self, address: int) -> int:
        base, offset = split_gmem(address)
        return int(self._bases[base]) + offset

    def run(self, parts: Sequence[DecodedStreams], first: Engine) -> Memories:
        oracle, module = self._oracle, self._module
        oracle.lmem[...], oracle.gmem[...] = self._lmem, self._gmem
        for part in parts:
            done = dict.fromkeys(Engine, 0)
            records: list[tuple[str, bytes]] = []
            for command in led_by(first, part).order:
                done[command.engine] += 1
                code = command.instruction.encode(command.number, done[command.engine.other])
                records.append((module.TIU if command.engine is Engine.COMPUTE else module.TDMA, code))
            try:
                oracle.run_logical(records)
            except module.OracleError as error:
                raise IllegalCommand(str(error)) from error
        outputs = {tensor.name: oracle.gmem[self._offset(tensor.address) :][: tensor.bytes] for tensor in self._results}
        return with_results({"lmem": oracle.lmem, "gmem": oracle.gmem}, outputs)


class TestBf16(OracleRemovalConformance):
    chip = "cv183x"
    mode = "bf16"
    others = (GOLDEN,)
    idle = 2

    def on_oracle(self, data: bytes, folder: Path) -> OracleSubject:
        return OracleSubject(data, folder)
