"""Mutants of waits on the vendor's functional model, which takes the streams' bytes and either engine first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api import DecodedStreams, Engine, IllegalCommand
from tpuc_bm1684x.container import BModel
from tpuc_bm1684x.isa import encode_stream
from tpuc_bm1684x.isa.geometry import DDR_BASE
from tpuc_bm1684x.simulator import Simulator

from tests.chips.bm1684x.oracle_runner import ORACLE
from tests.chips.mutants import Memories, random_inputs, with_results
from tests.chips.oracles import load_oracle
from tests.interop.hazard_checks import OracleRemovalConformance

pytestmark = pytest.mark.interop
GOLDEN = Path(__file__).parents[2] / "chips" / "bm1684x" / "goldens" / "handmade_conv_int8.bmodel"


class OracleSubject:
    """A `.bmodel` on the functional model: its code orders the streams by their bytes and executes them."""

    def __init__(self, data: bytes, folder: Path) -> None:
        self._module = load_oracle(folder, ORACLE)
        self._simulator = Simulator(BModel.from_bytes(data))
        self._inputs = random_inputs(self._simulator.inputs)
        self._oracle = self._module.Oracle(self._simulator.machine.ddr.size)
        self.parts: Sequence[DecodedStreams] = self._simulator.parts

    def close(self) -> None:
        self._oracle.close()

    @cached_property
    def _start(self) -> tuple[Any, Any]:
        """Local memory and DDR: random bytes, then weights and inputs."""
        rng = np.random.default_rng(17)
        stage, ddr = self._simulator.stage, rng.integers(0, 256, self._oracle.ddr.size, np.uint8)
        if stage.coefficients is not None:
            weights = np.frombuffer(stage.coefficients.data, np.uint8)
            ddr[stage.coefficients.address - DDR_BASE :][: weights.size] = weights
        for tensor in stage.inputs:
            values = np.ascontiguousarray(self._inputs[tensor.name]).reshape(-1).view(np.uint8)
            ddr[tensor.address - DDR_BASE :][: values.size] = values
        return rng.integers(0, 256, self._oracle.lmem.shape, np.uint8), ddr

    def run(self, parts: Sequence[DecodedStreams], first: Engine) -> Memories:
        oracle, module = self._oracle, self._module
        oracle.lmem[...], oracle.ddr[...] = self._start
        for part in parts:
            tiu, gdma = encode_stream(part.compute, Engine.COMPUTE), encode_stream(part.dma, Engine.DMA)
            try:
                oracle.run_stream(tiu, gdma, module.TIU if first is Engine.COMPUTE else module.GDMA)
            except module.OracleError as error:
                raise IllegalCommand(str(error)) from error
        outputs = {
            tensor.name: oracle.ddr[tensor.address - DDR_BASE :][: tensor.bytes] for tensor in self._simulator.outputs
        }
        return with_results({"lmem": oracle.lmem, "ddr": oracle.ddr}, outputs)


class TestF16(OracleRemovalConformance):
    chip = "bm1684x"
    mode = "f16"
    others = (GOLDEN,)

    def on_oracle(self, data: bytes, folder: Path) -> OracleSubject:
        return OracleSubject(data, folder)


class TestF32(TestF16):
    mode = "f32"
