"""How well a whole calibration keeps the network's outputs, on samples; and small changes that keep them better."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from tpuc.api import Module
from tpuc.api.host import Array, Pool, decibels

from tpuc_passes.accuracy.gradients import output_slots
from tpuc_passes.accuracy.network import FakeNetwork
from tpuc_passes.calibration.table import TensorThreshold

Entries = Mapping[str, TensorThreshold]

FACTORS = (0.85, 1.2)
"""By which thresholds are changed in turn."""
MOST_RUNS, FEWEST_RUNS = 160, 8
SECONDS_PER_FLOP = 1 / 40e9
SECONDS_PER_ELEMENT = 5e-9
SECONDS_PER_OP = 2e-5
"""What `FakeNetwork` takes on one core of a server. Measured with twelve networks (digits to YOLOX nano, 0.5 M to 1.1 G
operations): least squares give 18 G operations a second, 2.0 ns per element and 16 us per op; these numbers say 0.4 to
1.7 times what was measured. Only how many runs fit into a time follows from them.
"""
LEAST_GAIN_DB = 0.05
HOPELESS_DB = 1.0
"""A table that is so much worse than the best one on half of the samples is not run on the others."""


@dataclass(frozen=True)
class Verdict:
    """The mean over the outputs of their signal-to-noise ratio: over all samples, and over the first half of them."""

    decibels: float
    half: float


@dataclass
class Judge:
    """Runs samples through calibrated networks, here in `pool`. `quantised` makes one of thresholds; all should share
    their int8 filters.
    """

    module: Module
    samples: Sequence[Mapping[str, Array]]
    quantised: Callable[[Entries], FakeNetwork]
    pool: Pool
    exact: FakeNetwork = field(init=False)
    wanted: list[list[Array]] = field(init=False, default_factory=list["list[Array]"])
    slots: list[int] = field(init=False, default_factory=list[int])

    def __post_init__(self) -> None:
        self.exact = FakeNetwork(self.module)
        self.slots = output_slots(self.exact)
        self.wanted = self._run(self.exact, self.samples, integer=False)

    def judge(self, entries: Entries, shifts: Mapping[str, Array], best: Verdict | None = None) -> Verdict:
        """What the outputs are worth with these thresholds and biases. What is hopeless against `best` runs on half of
        the samples, and gets as many decibels less than `best` as it has there.
        """
        net = self.quantised(entries)
        net.shift_biases(shifts)
        middle = len(self.samples) // 2
        sums = self._energies(net, 0, middle)
        half = _decibels(sums)
        if best is not None and math.isfinite(best.half) and half < best.half - HOPELESS_DB:
            return Verdict(best.decibels + half - best.half, half)
        return Verdict(_decibels(sums + self._energies(net, middle, len(self.samples))), half)

    def climb(
        self, entries: Entries, shifts: Mapping[str, Array], names: Sequence[str], seconds: float, verdict: Verdict
    ) -> tuple[dict[str, TensorThreshold], Verdict]:
        """Change the thresholds of `names` one by one while the outputs get better and about `seconds` are left, unless
        that is too little for anything. `verdict` is that of `entries`; returns that of the result too.
        """
        best = verdict
        result: dict[str, TensorThreshold] = dict(entries)
        runs = min(MOST_RUNS, int(seconds / (len(self.samples) * seconds_of(self.module))))
        for name in names if runs >= FEWEST_RUNS else ():
            for factor in FACTORS:
                if runs <= 0:
                    return result, best
                runs -= 1
                changed = {**result, name: replace(result[name], threshold=result[name].threshold * factor)}
                verdict = self.judge(changed, shifts, best)
                if verdict.decibels > best.decibels + LEAST_GAIN_DB:
                    best, result = verdict, changed
                    break
        return result, best

    def _energies(self, net: FakeNetwork, first: int, end: int) -> Array:
        """Signal and noise of each output over some samples: `[outputs, 2]`."""
        sums = np.zeros((len(self.slots), 2))
        run = self._run(net, self.samples[first:end], integer=True)
        for got, wanted in zip(run, self.wanted[first:end], strict=True):
            sums += [(_energy(a), _energy(a - b)) for a, b in zip(wanted, got, strict=True)]
        return sums

    def _run(self, net: FakeNetwork, samples: Sequence[Mapping[str, Array]], *, integer: bool) -> list[list[Array]]:
        states = [net.start(sample) for sample in samples]
        net.run_together(range(len(net.plan.steps)), states, self.pool, integer=integer, keep=self.slots)
        return [[value for slot in self.slots if (value := state.values[slot]) is not None] for state in states]


def _decibels(sums: Array) -> float:
    ratios = [decibels(signal, noise) for signal, noise in sums.tolist() if signal > 0 and noise != 0]
    return sum(ratios) / len(ratios) if ratios else math.inf


def seconds_of(module: Module) -> float:
    """About how long a network runs, from the network alone: the same on every machine."""
    operations = [operation for operation in module.main.operations if operation.results and operation.operands]
    flops = sum(operation.op.flops(operation.node()) for operation in operations)
    elements = sum(operation.result.tensor.size for operation in operations)
    return flops * SECONDS_PER_FLOP + elements * SECONDS_PER_ELEMENT + len(operations) * SECONDS_PER_OP


def _energy(array: Array) -> float:
    flat = array.astype(np.float64).reshape(-1)
    return float(flat @ flat)
