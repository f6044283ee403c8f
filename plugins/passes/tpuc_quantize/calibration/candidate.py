"""A candidate: a calibration table as a frozen value that records which stage decided each threshold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from tpuc.api.evaluation import Array

from tpuc_quantize.simulation.network import Filters
from tpuc_quantize.tables.history import Stage
from tpuc_quantize.tables.table import TensorThreshold

Entries = Mapping[str, TensorThreshold]


@dataclass(frozen=True, eq=False)
class Candidate:
    """Thresholds, bias shifts, thresholds of network inputs and per channel, rounded filters, channel factors moved
    between filters, and the stages that led here from the statistics.

    `inputs`, `channels` and `rounding` None: those of the best candidate so far. A candidate with a `handicap` must
    score that many decibels more than those without.
    """

    name: str
    entries: Entries
    shifts: Mapping[str, Array] = field(default_factory=dict[str, Array])
    inputs: Entries | None = None
    channels: Mapping[str, Array] | None = None
    rounding: Filters | None = None
    factors: Mapping[str, Array] = field(default_factory=dict[str, Array])
    handicap: float = 0.0
    stages: tuple[Stage, ...] = ()

    def is_like(self, other: Candidate) -> bool:
        """True if both compute the same; with filters rounded beforehand there is nothing left to correct."""
        if self.channels is not other.channels or self.rounding is not other.rounding or self.entries != other.entries:
            return False
        return all(
            np.array_equal(self.shifts.get(name, 0.0), other.shifts.get(name, 0.0))
            or not (np.any(self.shifts.get(name, 0.0)) or np.any(other.shifts.get(name, 0.0)))
            for name in {*self.shifts, *other.shifts}
        )

    def through(self, place: str, entries: Entries, decided: Collection[str] = ()) -> Candidate:
        """The candidate after a stage, with other entries. The stage decides the changed ones, and those in `decided`
        even if unchanged.
        """
        changed = {
            name: one.threshold
            for name, one in entries.items()
            if name in decided or name not in self.entries or one.threshold != self.entries[name].threshold
        }
        stages = (*self.stages, Stage(place, changed)) if changed else self.stages
        return replace(self, entries=entries, stages=stages)

    def named(self, name: str, shifts: Mapping[str, Array] | None = None, handicap: float = 0.0) -> Candidate:
        """The same thresholds under another name, with these bias shifts."""
        return replace(self, name=name, shifts={} if shifts is None else shifts, handicap=handicap)

    def beside(self, best: Candidate) -> Candidate:
        """The candidate with the best one's thresholds of inputs and per channel and rounding, unless it has its
        own.
        """
        taken: Entries = best.inputs if self.inputs is None and best.inputs is not None else {}
        stages = [one for one in best.stages if one not in self.stages and one.thresholds.keys() <= taken.keys()]
        return replace(
            self,
            entries={**self.entries, **taken},
            stages=(*self.stages, *stages),
            inputs=best.inputs if self.inputs is None else self.inputs,
            channels=best.channels if self.channels is None else self.channels,
            rounding=best.rounding if self.rounding is None else self.rounding,
        )
