"""Compiled files of the bundled chips as programs for mutants, in our simulators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import DecodedStreams
from tpuc_bm1684x.container import BModel
from tpuc_bm1684x.simulator import Simulator as Bm1684xSimulator
from tpuc_cv183x.container import CviModel
from tpuc_cv183x.isa.geometry import WEIGHTS
from tpuc_cv183x.simulator import Simulator as Cv183xSimulator

from tests.chips.mutants import Array, Memories, Subject


class _Bm1684x(Bm1684xSimulator):
    """Starts with random bytes in local memory and in all of DDR but the weights."""

    def _reset(self) -> None:
        super()._reset()
        rng = np.random.default_rng(17)
        lmem = self.machine.lmem[:, : self._lmem_bytes]
        lmem[...] = rng.integers(0, 256, lmem.shape, np.uint8)
        context = self.machine.ddr[self._context]
        context[...] = rng.integers(0, 256, context.shape, np.uint8)


class Bm1684xSubject:
    """A `.bmodel`."""

    def __init__(self, data: bytes) -> None:
        self._simulator = _Bm1684x(BModel.from_bytes(data))
        self._inputs = random_inputs(self._simulator.inputs)
        self.parts: Sequence[DecodedStreams] = self._simulator.groups

    def run(self, parts: Sequence[DecodedStreams]) -> Memories:
        simulator = self._simulator
        simulator.groups = tuple(parts)
        with np.errstate(all="ignore"):
            outputs = simulator.run(self._inputs, check=False)
        lmem = simulator.machine.lmem[:, : simulator._lmem_bytes]
        return _copies({"lmem": lmem, "ddr": simulator.machine.ddr}, outputs)


class _Cv183x(Cv183xSimulator):
    """Starts with random bytes in local memory and in all of GMEM but the weights."""

    def _reset(self) -> None:
        super()._reset()
        rng = np.random.default_rng(17)
        memories = [memory for base, memory in enumerate(self.machine.gmem) if base != WEIGHTS]
        for memory in (self.machine.lmem, *memories):
            memory[...] = rng.integers(0, 256, memory.shape, np.uint8)


class Cv183xSubject:
    """A `.cvimodel`."""

    def __init__(self, data: bytes) -> None:
        self._simulator = _Cv183x(CviModel.from_bytes(data))
        self._inputs = random_inputs(self._simulator.inputs)
        self.parts: Sequence[DecodedStreams] = self._simulator.segments

    def run(self, parts: Sequence[DecodedStreams]) -> Memories:
        simulator = self._simulator
        left = iter(parts)
        simulator.steps = tuple(next(left) if isinstance(step, DecodedStreams) else step for step in simulator.steps)
        with np.errstate(all="ignore"):
            outputs = simulator.run(self._inputs, check=False)
        gmem = {f"gmem{base}": memory for base, memory in enumerate(simulator.machine.gmem)}
        return _copies({"lmem": simulator.machine.lmem} | gmem, outputs)


def subject_of(suffix: str, data: bytes) -> Subject:
    """A compiled file by its suffix."""
    return Bm1684xSubject(data) if suffix == ".bmodel" else Cv183xSubject(data)


def random_inputs(tensors: Sequence[Any]) -> dict[str, Array]:
    """Values as small as those of images, of the stored type."""
    rng = np.random.default_rng(5)
    return {one.name: (rng.standard_normal(one.shape) * 32).astype(one.type.numpy) for one in tensors}


def _copies(memories: Memories, outputs: Memories) -> Memories:
    whole = np.concatenate([array.reshape(-1).view(np.uint8) for array in outputs.values()])
    return {name: memory.copy() for name, memory in memories.items()} | {"outputs": whole}
