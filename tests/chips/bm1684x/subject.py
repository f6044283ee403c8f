"""A `.bmodel` as a program for mutants, in our simulator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import DecodedStreams, Engine
from tpuc_bm1684x.container import BModel
from tpuc_bm1684x.simulator import Simulator

from tests.chips.mutants import Memories, RandomBytes, led_by, random_inputs, with_results


class RandomStart(Simulator):
    """Starts with random bytes in local memory and in all of DDR but the weights."""

    def __init__(self, model: BModel) -> None:
        super().__init__(model)
        self._random = RandomBytes()

    def _reset(self) -> None:
        super()._reset()
        self._random.fill("lmem", self.used_lmem())
        self._random.fill("ddr", self.machine.ddr[self._context])

    def used_lmem(self) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        """What the program may write of each lane."""
        return self.machine.lmem[:, : self._lmem_bytes]


class FileSubject:
    """See Subject."""

    def __init__(self, data: bytes) -> None:
        self._simulator = RandomStart(BModel.from_bytes(data))
        self._inputs = random_inputs(self._simulator.inputs)
        self.parts: Sequence[DecodedStreams] = self._simulator.parts

    def run(self, parts: Sequence[DecodedStreams], first: Engine) -> Memories:
        simulator = self._simulator
        simulator.steps = tuple(led_by(first, part) for part in parts)
        with np.errstate(all="ignore"):
            outputs = simulator.run(self._inputs, check=False)
        return with_results({"lmem": simulator.used_lmem(), "ddr": simulator.machine.ddr}, outputs)
