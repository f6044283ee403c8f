"""A `.cvimodel` as a program for mutants, in our simulator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import DecodedStreams, Engine
from tpuc_cv18.container import CviModel
from tpuc_cv18.isa import Target
from tpuc_cv18.isa.geometry import WEIGHTS
from tpuc_cv18.simulator import Simulator

from tests.chips.mutants import Memories, RandomBytes, led_by, random_inputs, with_results


class RandomStart(Simulator):
    """Starts with random bytes in local memory and in all of GMEM but the weights."""

    def __init__(self, model: CviModel) -> None:
        super().__init__(model)
        self._random = RandomBytes()

    def _reset(self) -> None:
        super()._reset()
        self._random.fill("lmem", self.machine.lmem)
        for base, memory in enumerate(self.machine.gmem):
            if base != WEIGHTS:
                self._random.fill(f"gmem{base}", memory)


class FileSubject:
    """See Subject."""

    def __init__(self, data: bytes, target: Target) -> None:
        self._simulator = RandomStart(CviModel.from_bytes(data, target))
        self._inputs = random_inputs(self._simulator.inputs)
        self.parts: Sequence[DecodedStreams] = self._simulator.parts

    def run(self, parts: Sequence[DecodedStreams], first: Engine) -> Memories:
        simulator = self._simulator
        left = (led_by(first, part) for part in parts)
        simulator.steps = tuple(next(left) if isinstance(step, DecodedStreams) else step for step in simulator.steps)
        with np.errstate(all="ignore"):
            outputs = simulator.run(self._inputs, check=False)
        gmem = {f"gmem{base}": memory for base, memory in enumerate(simulator.machine.gmem)}
        return with_results({"lmem": simulator.machine.lmem} | gmem, outputs)
