"""Simulate files with tagged addresses: each tag has a memory of its own, as with the bases that the runtime sets."""

from __future__ import annotations

import functools

import numpy as np
from tpuc.api import CorruptFile, UsageError
from tpuc_bm1684x.isa.geometry import DDR_LIMIT_BYTES
from tpuc_bm1684x.isa.target import Target
from tpuc_bm1684x.isa.types import Array
from tpuc_bm1684x.machine import Machine
from tpuc_bm1684x.simulator import Simulator

from tpuc_bm1688.target import ACTIVATIONS, CV186X, TAGGED, WEIGHTS


class TaggedSimulator(Simulator):
    """One network of a file whose addresses are relative to bases."""

    target = CV186X

    def _memories(self, source: str) -> Machine:
        sizes = [0] * self.target.ddr_tags
        sizes[ACTIVATIONS] = self.stage.context_bytes
        for tensor in (*self.stage.inputs, *self.stage.outputs):
            tag, offset = self.target.split(tensor.address)
            if not tensor.address & TAGGED or tag in (0, WEIGHTS):
                raise CorruptFile(
                    f"{source}: tensor {tensor.name!r} at {tensor.address:#x} is outside the memory of inputs and "
                    "outputs; the file is damaged"
                )
            sizes[tag] = max(sizes[tag], offset + tensor.bytes)
        if max(sizes) > DDR_LIMIT_BYTES:
            raise CorruptFile(f"{source}: {max(sizes)} bytes behind one base; the file is damaged")
        machine = Machine(0, self.target)
        machine.tagged = [np.zeros(size, np.uint8) for size in sizes]
        machine.tagged[WEIGHTS] = self._stored_weights().copy()
        self._cores = [machine, *(Machine(0, self.target) for _ in range(1, self.target.cores))]
        for core in self._cores:
            core.tagged = machine.tagged
        return machine

    def _core(self, core: int) -> Machine:
        return self._cores[core]

    def _stored_weights(self) -> Array:
        stored = self.stage.coefficients
        return np.frombuffer(b"" if stored is None else stored.data, np.uint8)

    def _reset(self) -> None:
        for core in self._cores:
            core.reset(self._lmem_bytes)
        for tag, memory in enumerate(self.machine.tagged):
            if tag != WEIGHTS:
                memory[:] = 0

    def forget(self) -> None:
        if self._weights_touched:
            self.machine.tagged[WEIGHTS][:] = self._stored_weights()

    def _memory(self, address: int, size: int) -> Array:
        tag, offset = self.target.split(address)
        memory = self.machine.tagged[tag]
        if not address & TAGGED or offset + size > memory.size:
            raise UsageError(f"{self.source}: {size} bytes at {address:#x} are outside the memory of this program")
        return memory[offset : offset + size]

    def _writes_weights(self) -> bool:
        regions = (region for region in self._written() if region.space == "ddr")
        return any(self.target.split(region.start)[0] == WEIGHTS for region in regions)


@functools.cache
def simulator_of(target: Target) -> type[TaggedSimulator]:
    """The simulator of a chip."""
    return type(f"{target.name}Simulator", (TaggedSimulator,), {"target": target})
