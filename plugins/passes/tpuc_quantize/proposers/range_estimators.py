"""Propose the unchanged tables of the range estimators."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search
from tpuc_quantize.options.tuning import COMPARISON


class RangeEstimators(Proposer):
    """The thresholds of each method, such as the smallest divergence of histograms (Migacz, "8-bit inference with
    TensorRT", 2017). They refine nothing and must be clearly better than the current best.
    """

    name = "range-estimators"

    def propose(self, search: Search) -> Iterator[Candidate]:
        unseen = search.settings.headroom > 0
        shifts, handicap = (search.filter_shifts, math.inf) if unseen else (None, COMPARISON.clear_gain)
        for one in search.methods:
            yield one.named(one.name, shifts, handicap)
