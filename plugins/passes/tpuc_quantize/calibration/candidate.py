"""A candidate: one calibration table as a frozen value that remembers which place decided each threshold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from tpuc.api.evaluation import Array

from tpuc_quantize.tables.history import Stage
from tpuc_quantize.tables.table import TensorThreshold

Entries = Mapping[str, TensorThreshold]


@dataclass(frozen=True)
class Candidate:
    """Thresholds and bias shifts, and how they were made: a name, and every stage from the statistics on."""

    name: str
    entries: Entries
    shifts: Mapping[str, Array] = field(default_factory=dict[str, Array])
    stages: tuple[Stage, ...] = ()

    def is_like(self, other: Candidate) -> bool:
        """Does it compute the same? Filters that were rounded before leave nothing to correct."""
        return self.entries == other.entries and all(
            np.array_equal(self.shifts.get(name, 0.0), other.shifts.get(name, 0.0))
            or not (np.any(self.shifts.get(name, 0.0)) or np.any(other.shifts.get(name, 0.0)))
            for name in {*self.shifts, *other.shifts}
        )

    def through(self, place: str, entries: Entries, decided: Collection[str] = ()) -> Candidate:
        """What a place makes of it: other entries. It decides those that changed, and `decided` even where it keeps
        them.
        """
        changed = {
            name: one.threshold
            for name, one in entries.items()
            if name in decided or name not in self.entries or one.threshold != self.entries[name].threshold
        }
        stages = (*self.stages, Stage(place, changed)) if changed else self.stages
        return replace(self, entries=entries, stages=stages)

    def named(self, name: str, shifts: Mapping[str, Array] | None = None) -> Candidate:
        """The same thresholds under another name, with these bias shifts."""
        return replace(self, name=name, shifts={} if shifts is None else shifts)
