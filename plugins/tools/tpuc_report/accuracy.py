"""Compare the lowered network with the float network on samples: layers, outputs, predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import QUANTIZED, Module, UsageError
from tpuc.api.evaluation import Array, Interpreter, real_values, types_of
from tpuc_driver.api.host import (
    CHECK_SAMPLES,
    SELF_CHECK,
    SampleSource,
    SelfCheck,
    Session,
    cosine,
    decibels,
    finite_pair,
    inputs_of,
    open_samples,
    pair_inputs,
    without_seen,
)

if TYPE_CHECKING:
    from tpuc_report.sources import Modules


@dataclass
class Error:
    """The error of one tensor over all samples: energies of its values and of their error, lowest cosine, largest
    error.
    """

    signal: float = 0.0
    noise: float = 0.0
    cosine: float = 1.0
    largest: float = 0.0

    @property
    def sqnr_db(self) -> float:
        """Signal-to-quantization-noise ratio in dB."""
        return decibels(self.signal, self.noise)

    def add(self, got: Array, wanted: Array) -> None:
        """Add one sample."""
        self.cosine = min(self.cosine, cosine(got, wanted))
        pair = finite_pair(got, wanted)
        if pair is None:
            self.noise = self.largest = math.inf
            return
        error = np.abs(pair[0] - pair[1])
        self.signal += float((pair[1] ** 2).sum())
        self.noise += float((error**2).sum())
        self.largest = max(self.largest, float(error.max()))


@dataclass(frozen=True)
class Accuracy:
    """Results on some samples: `layers`, `outputs` by their names in the float network, and the agreeing predictions.

    `left_out`: samples skipped because the network was calibrated on them. `is_seen`: True if it was calibrated on all
    of the data, which had to be used; None if the file does not state its calibration data.
    """

    dataset: str
    samples: int
    left_out: int
    is_seen: bool | None
    layers: Mapping[str, Error]
    outputs: Mapping[str, Error]
    check: SelfCheck | None


def measure(session: Session, modules: Modules, dataset: Path, count: int, seen: Sequence[str] = ()) -> Accuracy:
    """Run both networks on the first samples of a data set whose fingerprints are not in `seen`, unless all are; raises
    UsageError if there are none.
    """
    exact, lowered = modules.exact, modules.lowered
    specs = [
        one if one.name == other.name else other
        for one, other in zip(inputs_of(exact), inputs_of(lowered), strict=True)
    ]
    found: dict[str, Error] = {}
    outputs: dict[str, Error] = {}
    ends = [*zip(exact.main.outputs, lowered.main.outputs, strict=True)]
    samples = 0
    own, types = types_of(exact), types_of(lowered)
    plain, quantized = Interpreter(exact), Interpreter(lowered)
    every = open_samples(specs, dataset, None, 0, session.registry)
    unseen = without_seen(every, seen)
    is_seen = None if not seen else not unseen.samples
    source = first(unseen if unseen.samples else every, count)
    for sample in session.progress(source, "comparing", None):
        for_exact, for_lowered = pair_inputs(exact, lowered, sample)
        wanted, got = plain.run(for_exact, "all"), quantized.run(for_lowered, "all")
        samples += 1
        for name, array in got.items():
            if name in wanted and name in types and name in own and wanted[name].size == array.size > 0:
                real = real_values(array, types[name]), real_values(wanted[name], own[name])
                found.setdefault(name, Error()).add(*real)
        for one, other in ends:
            if wanted[one.name].size == got[other.name].size > 0:
                real = real_values(got[other.name], other.tensor), real_values(wanted[one.name], one.tensor)
                outputs.setdefault(one.name, Error()).add(*real)
    if not samples:
        raise UsageError(f"--dataset {dataset}: contains no samples; give a folder of images or arrays.")
    check = _check(session, exact, lowered, replace(source, inputs=tuple(inputs_of(exact))), is_seen)
    left_out = len(every) - len(unseen) if unseen.samples else 0
    return Accuracy(dataset.name, samples, left_out, is_seen, found, outputs, check)


def first(source: SampleSource, count: int) -> SampleSource:
    """Return the first samples of a source."""
    return replace(source, samples=source.samples[:count])


def _check(
    session: Session, exact: Module, lowered: Module, samples: SampleSource, tuned: bool | None
) -> SelfCheck | None:
    """Return on how many predictions the two networks agree; None if they cannot be compared."""
    context = session.context({CHECK_SAMPLES: samples, QUANTIZED: lowered})
    definition = session.registry.get("tpuc.passes", "check-decisions")
    session.manager(context).run(exact, [definition(tuned=tuned)], "verify")
    return context.find(SELF_CHECK)
