"""A threshold that a handful of outliers cannot move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import Calibrator, TensorStatistics


@dataclass(frozen=True)
class Trimmed(Calibrator):
    """The lowest bin edge above which there are at most `dropped` values."""

    name = "trimmed"
    dropped: int = 10

    def threshold(self, statistics: TensorStatistics) -> float:
        counts = statistics.counts
        in_last_bins = np.cumsum(counts[::-1])  # values in the last bin, the last two, ...
        cut = int(np.searchsorted(in_last_bins, self.dropped, side="right"))
        return statistics.absmax * (counts.size - cut) / counts.size if cut < counts.size else statistics.absmax
