"""Which of several whole calibrations keeps the network's answers best, on samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from tpuc.api.host import Array, Job, PortableModule, SampleReader, SampleSource

from tpuc_passes.accuracy.gradients import answers
from tpuc_passes.accuracy.network import FakeNetwork, State

Energies = tuple[tuple[float, float], ...]
"""Signal and noise of every answer."""


@dataclass(frozen=True)
class VerdictJob(Job["list[Energies]"]):
    """Per sample signal and noise of the answers of a calibrated network, with bias shifts by op name."""

    network: PortableModule
    samples: SampleSource
    shifts: Mapping[str, Array] = field(default_factory=dict[str, Array])

    def prepare(self) -> Callable[[range], list[Energies]]:
        net, reader = FakeNetwork(self.network.module), SampleReader(self.samples)
        net.shift_biases(self.shifts)
        slots = answers(net)

        def values(state: State) -> list[Array]:
            return [value for slot in slots if (value := state.values[slot]) is not None]

        def one(index: int) -> Energies:
            sample = reader.read(index)
            wanted, got = (values(net.run(sample, integer=integer, keep=True)) for integer in (False, True))
            return tuple((_energy(a), _energy(a - b)) for a, b in zip(wanted, got, strict=True))

        return lambda unit: [one(index) for index in unit]


def _energy(array: Array) -> float:
    flat = array.astype(np.float64).reshape(-1)
    return float(flat @ flat)


def decibels(results: Sequence[Energies]) -> float:
    """The mean over the answers of their signal-to-noise ratio over all samples."""
    sums = np.asarray(results, np.float64).sum(axis=0)
    ratios = [10 * math.log10(signal / noise) for signal, noise in sums.tolist() if signal > 0 and noise > 0]
    return sum(ratios) / len(ratios) if ratios else math.inf
